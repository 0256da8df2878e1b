"""The real leader of a node of toys. ``record`` in its root holds the URL of the store of record."""

from secmon.cluster.leadership.lookout import LeaderSettings
from secmon.cluster.leadership.snapshot import Timing
from secmon.cluster.leadership.term import Term
from secmon.cluster.record.readiness import Readiness
from secmon.common.errors import SecmonError
from secmon.config.api import ApiConfig
from secmon.config.cluster import ClusterSection, StoreOfRecord
from secmon.config.main import MainConfig
from secmon.config.options import InternalOptions
from secmon.daemons.daemon import Context
from secmon.daemons.leaderd import LeaderDaemon
from secmon.daemons.node_builder import Installation

QUICK = Timing(ttl=2, contact=0.2, attempt=1.5, successor=0.5)


def _become_master(installation: Installation, term: Term) -> None:
    """Note it; fails while there is a file ``no-takeover``."""
    root = installation.paths.root
    if (root / "no-takeover").exists():
        raise SecmonError(1006, "the disk is full")
    with (root / "takeovers").open("a") as file:
        file.write(f"{term.number}\n")


def build(context: Context) -> LeaderDaemon:
    root = context.paths.root
    section = ClusterSection(node_name=root.name, store=StoreOfRecord(url=(root / "record").read_text()))
    installation = Installation(context.paths, ApiConfig(), MainConfig(cluster=section), InternalOptions.defaults())
    settings = LeaderSettings(root.name, candidate=True, address="", port=1516, timing=QUICK)
    return LeaderDaemon(installation, _become_master, lambda connection: Readiness(), settings=settings)
