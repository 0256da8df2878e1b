"""Where drills take place: a cluster of three nodes and its database, on hosts of their own if that is allowed."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.folders import short_root
from tests.integration import namespaces
from tests.integration.ha_kit import HaCluster, ha_cluster
from tests.integration.kit import RealNode, free_port
from tests.postgres import PostgresServer, running_server

LEASE_SECONDS = 12
OPTIONS: Mapping[str, int] = {"clusterd.security_lease": LEASE_SECONDS, "leaderd.term_seconds": 5}
"""Shorter than by default, so that more faults outlast them."""
DATABASE_HOST = 4
"""Number of the host of the database, after those of the nodes."""


@dataclass
class Stage:
    """``hosts``: None when all is on this one, whose network cannot be cut."""

    cluster: HaCluster
    database: PostgresServer
    hosts: namespaces.Hosts | None = None

    def number(self, node: RealNode) -> int:
        """Of the node's host."""
        return 1 + self.cluster.nodes.index(node)


@contextmanager
def staged() -> Iterator[Stage]:
    """A running cluster; everything is removed at the end."""
    if not namespaces.usable():
        with _database("127.0.0.1") as database, ha_cluster(database.new_database(), options=OPTIONS) as cluster:
            yield Stage(cluster, database)
        return
    with (
        namespaces.hosts(DATABASE_HOST) as hosts,
        _database(hosts.cluster_address(DATABASE_HOST), hosts.prefix(DATABASE_HOST)) as database,
        ha_cluster(database.new_database(), options=OPTIONS, hosts=hosts) as cluster,
    ):
        yield Stage(cluster, database, hosts)


@contextmanager
def _database(address: str, prefix: Sequence[str] = ()) -> Iterator[PostgresServer]:
    folder = Path(tempfile.mkdtemp(prefix="db-", dir=short_root()))
    folder.chmod(0o755)
    try:
        with running_server(folder / "s", port=free_port(), address=address, prefix=prefix) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)
