"""Terms in the sessions of nodes, and the lease of a master with a store of record."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from secmon.cluster.leadership.client import LeaderClient
from secmon.cluster.leadership.known_term import KnownTerm
from secmon.cluster.leadership.role_file import CurrentRole, write_role
from secmon.cluster.leadership.term import Term
from secmon.cluster.lease import LeaseReader, LeaseWriter
from secmon.common.errors import SecmonError
from secmon.common.ipc.commands import CommandServer
from secmon.common.paths import Paths
from secmon.daemons.control_sockets import LIMITS
from secmon.master.cluster_server import ClusterServer
from secmon.master.mastership import GATHER_SECONDS, Mastership
from secmon.worker.cluster_member import ClusterMember
from tests.cluster_kit import ClusterKit, settings
from tests.manual_clock import ManualClock
from tests.waiting import until

pytestmark = pytest.mark.anyio


class FakeLeader:
    """Answers at the socket of ``secmon-leaderd``. ``contacted`` None: it does not reach the database."""

    def __init__(self, paths: Paths, clock: ManualClock) -> None:
        self.role, self.candidates, self.contacted = "master", ["m", "a", "b"], clock.boottime()
        self.shown: list[tuple[int, str]] = []
        self.server = CommandServer(paths.leader_socket, self._answer, LIMITS)

    async def _answer(self, command: str, request: Mapping[str, Any]) -> object:
        if command == "shown":
            self.shown.append((request["number"], request["by"]))
            return {}
        term = {"number": 5, "id": "id", "holder": "m", "address": "", "port": 1}
        rest: dict[str, object] = {"since": None, "reason": "", "resigned": False, "trouble": "", "trouble_since": None}
        rest |= {"expired_since": None, "unable": [], "may_follow": self.candidates}
        return {"role": self.role, "term": term, "candidates": self.candidates, "contacted": self.contacted, **rest}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    made = Paths(tmp_path / "m")
    for folder in (made.run, made.sockets):
        folder.mkdir(parents=True)
    write_role(made.role, CurrentRole("master", Term(5, "id", "m", "127.0.0.1", 1)))
    return made


@pytest.fixture
async def leader(paths: Paths, clock: ManualClock) -> AsyncIterator[FakeLeader]:
    made = FakeLeader(paths, clock)
    await made.server.open()
    yield made
    await made.server.close()


@pytest.fixture
def mastership(paths: Paths, clock: ManualClock) -> Mastership:
    lease = LeaseWriter(paths.lease, clock, seconds=30)
    return Mastership("m", KnownTerm(paths.role), leader=LeaderClient(paths), lease=lease, clock=clock)


def remaining(paths: Paths, clock: ManualClock) -> float:
    reader = LeaseReader(paths.lease, clock)
    try:
        return reader.remaining()
    finally:
        reader.close()


async def prove(mastership: Mastership) -> None:
    mastership._prove(await mastership._status())


def acknowledge(mastership: Mastership, clock: ManualClock, *names: str) -> None:
    mastership._acknowledged.update(dict.fromkeys(names, clock.boottime()))


async def test_the_lease_counts_from_the_contact_with_the_database(
    mastership: Mastership, leader: FakeLeader, paths: Paths, clock: ManualClock
) -> None:
    assert remaining(paths, clock) == 0
    clock.advance(4)
    await prove(mastership)
    assert remaining(paths, clock) == 26
    assert mastership.unproved == 4


async def test_without_the_database_it_counts_from_what_all_members_acknowledge(
    mastership: Mastership, leader: FakeLeader, paths: Paths, clock: ManualClock
) -> None:
    acknowledge(mastership, clock, "w")
    await prove(mastership)
    clock.advance(20)
    acknowledge(mastership, clock, "a", "b")
    await prove(mastership)
    assert remaining(paths, clock) == 30 - 20, "w is silent"
    clock.advance(5)
    acknowledge(mastership, clock, "w")
    await prove(mastership)
    assert remaining(paths, clock) == 30 - 5
    del mastership._acknowledged["b"]
    clock.advance(5)
    acknowledge(mastership, clock, "a", "w")
    await prove(mastership)
    assert remaining(paths, clock) == 30 - 10, "b has left, and may be a follower of another master"
    leader.contacted = clock.boottime()
    await prove(mastership)
    assert remaining(paths, clock) == 30


async def test_an_hour_without_the_database(
    mastership: Mastership, leader: FakeLeader, paths: Paths, clock: ManualClock
) -> None:
    """Logins and tokens go on, on this node and on its workers, until one member does not acknowledge it any more."""
    await prove(mastership)
    for _ in range(3600):
        acknowledge(mastership, clock, "a", "b")
        clock.advance(1)
        await prove(mastership)
        assert remaining(paths, clock) == 29
        assert mastership.unproved == 1, "what the leases of workers are shorter by"
    for second in range(1, 29):
        acknowledge(mastership, clock, "a")
        clock.advance(1)
        await prove(mastership)
        assert remaining(paths, clock) == 29 - second, "b may follow another master"
    clock.advance(1)
    await prove(mastership)
    assert remaining(paths, clock) == 0


async def test_a_leader_that_is_away_proves_nothing(mastership: Mastership, paths: Paths, clock: ManualClock) -> None:
    acknowledge(mastership, clock, "a")
    await prove(mastership)
    assert remaining(paths, clock) == 0
    assert mastership.unproved == float("inf")


async def test_a_leader_without_the_role_proves_nothing(
    mastership: Mastership, leader: FakeLeader, paths: Paths, clock: ManualClock
) -> None:
    leader.role = "worker"
    await prove(mastership)
    assert remaining(paths, clock) == 0


async def test_a_later_term_is_reported_and_refused(
    mastership: Mastership, leader: FakeLeader, clock: ManualClock
) -> None:
    mastership.require_current(5, "a")
    mastership.require_current(0, "an earlier version")
    with pytest.raises(SecmonError) as refused:
        mastership.require_current(6, "b")
    assert refused.value.code == 3054
    await mastership._report()
    await mastership._report()
    assert leader.shown == [(6, "b")]


async def test_a_known_term_never_falls(paths: Paths) -> None:
    known = KnownTerm(paths.role)
    assert known.number == 5
    write_role(paths.role, CurrentRole("worker", Term(7, "id", "b", "", 1)))
    assert known.number == 7
    paths.role.unlink()
    assert known.number == 7
    assert KnownTerm(None).number == 0


class Linked:
    """A master that holds term 5, and a worker, over real gRPC."""

    def __init__(self, tmp_path: Path, mastership: Mastership) -> None:
        self.kit = ClusterKit(tmp_path)
        self.master = ClusterServer(
            paths=self.kit.paths("m"), settings=settings("m"), clock=self.kit.clock, terms=mastership
        )
        self.kit.masters.append(self.master)
        self.role = self.kit.paths("w").run / "role"
        self.role.parent.mkdir(parents=True)

    def know(self, number: int) -> None:
        """The worker learns of a term."""
        write_role(self.role, CurrentRole("worker", Term(number, "id", "m", "", 1)))

    async def start_worker(self) -> ClusterMember:
        ports = {"port": self.master.port, "enrol_port": self.master.enrol_port}
        made = ClusterMember(
            paths=self.kit.paths("w"),
            settings=settings("w", **ports),
            clock=self.kit.clock,
            known=KnownTerm(self.role),
        )
        self.kit.workers.append(made)
        await made.start()
        return made


@pytest.fixture
async def linked(tmp_path: Path, mastership: Mastership) -> AsyncIterator[Linked]:
    made = Linked(tmp_path, mastership)
    await made.master.start()
    yield made
    await made.kit.stop()


async def test_a_worker_leaves_a_master_whose_term_is_over(linked: Linked, leader: FakeLeader) -> None:
    linked.know(5)
    worker = await linked.start_worker()
    await linked.kit.joined("w")
    linked.know(6)
    await until(lambda: not worker.link.connected.is_set())
    await until(lambda: "3054" in worker.link.reason or "3054" in str(worker.link.refusal))
    assert linked.master.sessions.get("w") is None


async def test_a_master_learns_of_a_later_term_from_a_node_that_enrols(
    linked: Linked, mastership: Mastership, leader: FakeLeader
) -> None:
    linked.know(8)
    worker = await linked.start_worker()
    await until(lambda: worker.link.refusal is not None)
    assert worker.link.refusal is not None
    assert worker.link.refusal.code == 3054
    await mastership._report()
    assert leader.shown == [(8, "w")]


async def test_a_worker_of_an_earlier_version_joins(linked: Linked, leader: FakeLeader) -> None:
    await linked.start_worker()
    await linked.kit.joined("w")


async def test_a_new_master_waits_a_moment_for_the_others(
    mastership: Mastership, leader: FakeLeader, clock: ManualClock
) -> None:
    waiting = asyncio.create_task(mastership.gathered())
    acknowledge(mastership, clock, "a")
    await prove(mastership)
    assert not waiting.done()
    acknowledge(mastership, clock, "b")
    await prove(mastership)
    await waiting
    acknowledge(mastership, clock)
    await mastership.gathered()


async def test_a_master_waits_for_no_lost_node_later(mastership: Mastership, clock: ManualClock) -> None:
    clock.advance(GATHER_SECONDS)
    await mastership.gathered()
