"""Real clusters of equal nodes: PostgreSQL holds what the master owns, and says who that is."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from secmon.cluster.leadership.role_file import read_role
from secmon.common.paths import Paths
from tests.folders import short_root
from tests.integration.kit import RealCluster, RealNode, free_port, make_node
from tests.integration.namespaces import Hosts
from tests.waiting import LIMIT_SECONDS, wait_until

QUICK_RECORD: Mapping[str, int] = {"clusterd.security_lease": 30, "leaderd.term_seconds": 8}
_API: Mapping[str, object] = {"access.max_login_attempts": 1_000_000}


@dataclass
class HaCluster(RealCluster):
    """``master`` is the node that was it at first; use :meth:`leader`."""

    def leader(self) -> RealNode | None:
        """The running node that takes itself for the master."""
        found = [node for node in self.nodes if node.process is not None and is_master(node)]
        return found[0] if len(found) == 1 else None

    def wait_leader(self, *, other_than: RealNode | None = None, seconds: float = LIMIT_SECONDS) -> RealNode:
        """Wait until a node is master, and answers as such."""

        def found() -> bool:
            leader = self.leader()
            return leader is not None and leader is not other_than and self.serves(leader)

        wait_until(found, seconds=seconds, what="a master")
        leader = self.leader()
        assert leader is not None
        return leader

    def serves(self, node: RealNode) -> bool:
        try:
            return bool(self.call(node, "/cluster/local/info", timeout=3))
        except (httpx.HTTPError, AssertionError):
            return False

    def running_whole(self) -> bool:
        """Whether all running nodes see each other."""
        running = [node for node in self.nodes if node.process is not None]
        try:
            return all(self.members(node) == {one.name for one in running} for node in running)
        except (httpx.HTTPError, AssertionError):
            return False


def is_master(node: RealNode) -> bool:
    return read_role(node.paths.role).role == "master"


def secmon(node: RealNode, *arguments: str) -> str:
    """Output of a command on the node, which must succeed."""
    command = [*node.prefix, sys.executable, "-m", "secmon.cli", *arguments, "--root", str(node.paths.root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def use_address_and_store(paths: Paths, url: str, address: str) -> None:
    """Name the store of record, and the address of the node, in its configuration."""
    file = paths.main_config
    options = f"<store>{url.replace('&', '&amp;')}</store><address>{address}</address>"
    file.write_text(file.read_text().replace("</cluster>", f"{options}</cluster>"))


@contextmanager
def ha_cluster(
    url: str, nodes: int = 3, *, options: Mapping[str, int] | None = None, hosts: Hosts | None = None
) -> Iterator[HaCluster]:
    """Running nodes, each with an address of its own; the first one was the master before.

    With ``hosts`` each node is on the host of its number, otherwise all are on this one.
    """
    folder = Path(tempfile.mkdtemp(prefix="ha-", dir=short_root()))
    settings = {**QUICK_RECORD, **(options or {})}
    made = _on_hosts(folder, nodes, settings, hosts) if hosts else _on_loopback(folder, nodes, settings)
    for node, address in made:
        use_address_and_store(node.paths, url, address)
    with running(folder, [node for node, _ in made]) as cluster:
        yield cluster


def _on_loopback(folder: Path, nodes: int, options: Mapping[str, int]) -> list[tuple[RealNode, str]]:
    """Installed nodes, and their addresses."""
    port = free_port()
    free_port()  # the enrolment port next to it
    addresses = [f"127.77.{1 + port % 250}.{number}" for number in range(1, nodes + 1)]
    made = []
    for number, address in enumerate(addresses, start=1):
        node = make_node(folder, f"node{number}", role=_role(number), master=addresses[0], address=address,
                         cluster_port=port, api_port=free_port(), options=options, api=_API)  # fmt: skip
        made.append((node, address))
    return made


def _on_hosts(folder: Path, nodes: int, options: Mapping[str, int], hosts: Hosts) -> list[tuple[RealNode, str]]:
    """Installed nodes, and their addresses for each other."""
    made = []
    for number in range(1, nodes + 1):
        address = hosts.cluster_address(number)
        node = make_node(folder, f"node{number}", role=_role(number), master=hosts.cluster_address(1), address=address,
                         cluster_port=1516, api_port=55000, prefix=hosts.prefix(number), options=options,
                         api={**_API, "host": "0.0.0.0"})  # fmt: skip
        node.address = hosts.client_address(number)
        made.append((node, address))
    return made


def _role(number: int) -> str:
    return "master" if number == 1 else "worker"


@contextmanager
def running(folder: Path, made: list[RealNode]) -> Iterator[HaCluster]:
    """The nodes as a cluster, whose store of record is filled from the first one; all is removed at the end."""
    assert made[0].password is not None
    cluster = HaCluster(made[0], made[1:], made[0].password, folder)
    try:
        secmon(made[0], "store", "migrate")
        for node in made:
            node.start(wait=False)
        try:
            cluster.wait_leader()
            wait_until(cluster.running_whole, what="all nodes joined")
        except AssertionError as error:
            raise AssertionError(f"{error}\n" + "\n".join(node.output() for node in made)) from None
        yield cluster
    finally:
        for node in made:
            if node.process is not None:
                node.process.terminate()
        for node in made:
            node.stop()
        shutil.rmtree(folder, ignore_errors=True)
