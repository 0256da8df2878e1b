"""Every operation of this version: importing the areas fills the catalogue."""

from secmon.common.operations import (
    cluster,
    logs,
    manager,
    root,
    run_as,
    security,
    security_catalogue,
    security_links,
    security_policies,
    security_roles,
    security_rules,
    security_self,
    security_users,
    upload,
)
from secmon.common.operations.catalogue import CATALOGUE

AREAS = (
    root,
    security,
    security_users,
    security_roles,
    security_policies,
    security_rules,
    security_links,
    security_self,
    security_catalogue,
    run_as,
    cluster,
    manager,
    logs,
    upload,
)

__all__ = ["AREAS", "CATALOGUE"]
