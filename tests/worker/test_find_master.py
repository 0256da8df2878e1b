"""A worker that does not see the store of record finds the master, and follows it when it is another node."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from secmon.cluster.leadership.known_term import KnownTerm
from secmon.cluster.leadership.role_file import CurrentRole, read_role, write_role
from secmon.cluster.leadership.term import Term
from secmon.cluster.rpc.current_term import CurrentTermService
from secmon.common.errors import SecmonError
from secmon.master.cluster_server import ClusterServer
from secmon.worker.cluster_member import ClusterMember
from tests.cluster_kit import ClusterKit, settings
from tests.integration.kit import free_port
from tests.waiting import until

pytestmark = pytest.mark.anyio


class Held:
    """The term of a master of the test."""

    unproved = 0.0

    def __init__(self, term: int) -> None:
        self.term = term

    def require_current(self, shown: int, by: str) -> None:
        if shown > self.term:
            raise SecmonError(3054, f"{by} knows term {shown}")


class Hosts:
    """Nodes with addresses of their own and one port. The searching node ``n`` knows 127.0.0.1, .2 and .3."""

    def __init__(self, folder: Path) -> None:
        self.kit = ClusterKit(folder)
        self.port, self.enrol_port = free_port(), free_port()

    async def master(self, name: str, number: int, term: int) -> ClusterServer:
        """The master of ``term``; the first one makes the authority of the cluster."""
        paths = self.kit.paths(name)
        if self.kit.masters and not paths.cluster_tls.exists():
            paths.cluster_tls.mkdir(parents=True)
            for file in ("ca.pem", "ca.key"):
                shutil.copy(self.kit.paths("m1").cluster_tls / file, paths.cluster_tls)
        ports = {"listen_port": self.port, "port": self.port, "enrol_port": self.enrol_port}
        address = f"127.0.0.{number}"
        made = ClusterServer(
            paths=paths,
            settings=settings(name, bind_addr=address, master=address, **ports),
            clock=self.kit.clock,
            terms=Held(term),
        )
        self.tell(name, term, number)
        await made.start([CurrentTermService(paths.role).add_to])
        self.kit.masters.append(made)
        return made

    def tell(self, node: str, term: int, number: int) -> None:
        """``node`` learns from the store of record that 127.0.0.``number`` is master."""
        role = self.kit.paths(node).role
        role.parent.mkdir(parents=True, exist_ok=True)
        write_role(role, CurrentRole("worker", Term(term, "id", "m", f"127.0.0.{number}", self.port)))

    async def worker(self, name: str, number: int, **changes: object) -> ClusterMember:
        paths = self.kit.paths(name)
        ports = {"listen_port": self.port, "port": self.port, "enrol_port": self.enrol_port}
        made = ClusterMember(
            paths=paths,
            settings=settings(name, bind_addr=f"127.0.0.{number}", **ports, **changes),
            clock=self.kit.clock,
            known=KnownTerm(paths.role),
        )
        paths.role.parent.mkdir(parents=True, exist_ok=True)
        await made.start([CurrentTermService(paths.role).add_to])
        self.kit.workers.append(made)
        return made

    def learned(self) -> Term | None:
        """By the searching node."""
        return read_role(self.kit.paths("n").role).term

    async def searching(self) -> ClusterMember:
        return await self.worker("n", 9, master="127.0.0.3", addresses=("127.0.0.3", "127.0.0.2", "127.0.0.1"))


@pytest.fixture
async def hosts(tmp_path: Path) -> AsyncIterator[Hosts]:
    made = Hosts(tmp_path)
    yield made
    await made.kit.stop()


async def test_it_asks_and_follows(hosts: Hosts) -> None:
    first = await hosts.master("m1", 1, term=5)
    await hosts.worker("w", 2, master="127.0.0.1")
    await until(lambda: first.sessions.get("w"))
    node = await hosts.searching()
    await until(lambda: first.sessions.get("n"), "without a certificate the addresses take turns")
    await until(lambda: hosts.learned() == Term(5, "", "m1", "127.0.0.1", hosts.port))

    second = await hosts.master("m2", 4, term=6)
    hosts.tell("w", 6, 4)
    hosts.kit.masters.remove(first)
    await first.stop(grace=0)
    await until(lambda: second.sessions.get("n"), "a worker has named a master that n did not know")
    await until(lambda: hosts.learned() == Term(6, "", "m2", "127.0.0.4", hosts.port))

    await node.stop(grace=0)
    hosts.kit.workers.remove(node)
    hosts.kit.masters.remove(second)
    await second.stop(grace=0)
    hosts.tell("w", 5, 1)
    stale = await hosts.master("m1", 1, term=5)
    node = await hosts.searching()
    await until(lambda: "3054" in node.link.reason)
    assert stale.sessions.get("n") is None, "what was learned counts after a restart, too"


async def test_without_terms_the_first_address_counts(hosts: Hosts) -> None:
    """As with earlier releases: no node knows of a store of record."""
    await hosts.master("m1", 3, term=0)
    await hosts.searching()
    await until(lambda: hosts.kit.master.sessions.get("n"))
    session = hosts.kit.master.sessions.get("n")
    assert session is not None
    session.close("for the test")
    await until(lambda: hosts.kit.master.sessions.get("n") not in (None, session))
    assert not hosts.kit.paths("n").role.exists()
