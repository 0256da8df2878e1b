"""Every operation of this version: importing the areas fills the catalogue."""

from secmon.common.operations import cluster, logs, manager, root, run_as, security, upload
from secmon.common.operations.catalogue import CATALOGUE

AREAS = (root, security, run_as, cluster, manager, logs, upload)

__all__ = ["AREAS", "CATALOGUE"]
