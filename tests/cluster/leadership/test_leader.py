"""Nodes that agree on a master, over a real database."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from sqlalchemy import text

from secmon.cluster.leadership import leader as module
from secmon.cluster.leadership import terms
from secmon.cluster.leadership.candidates import BEHIND
from secmon.cluster.leadership.leader import Leader
from secmon.cluster.leadership.lookout import LeaderSettings
from secmon.cluster.leadership.role_file import CurrentRole
from secmon.cluster.leadership.snapshot import Timing
from secmon.cluster.leadership.term import Term
from secmon.cluster.record.engine import RecordAddress
from secmon.cluster.record.readiness import Readiness
from secmon.common.background import cancel
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from tests.cluster.leadership.kit import run_out, set_up
from tests.postgres import PostgresServer
from tests.waiting import LIMIT_SECONDS, until

pytestmark = pytest.mark.anyio

QUICK = Timing(ttl=1, contact=0.1, attempt=1.5, successor=2.0)
PATIENT = Timing(ttl=60, contact=2.0, attempt=10, successor=60)
"""Nothing expires, however busy the machine is."""


class Member:
    """A node as its leader sees it."""

    def __init__(
        self,
        name: str,
        record: RecordAddress,
        *,
        candidate: bool = True,
        start: CurrentRole | None = None,
        address: str = "",
        preference: int = 50,
        timing: Timing = QUICK,
    ) -> None:
        self.readiness = Readiness()
        self.roles: list[CurrentRole] = []
        self.takeovers: list[Term] = []
        self.takeover: Callable[[Term], None] = lambda term: None
        self.counters = Counters()
        self.leader = Leader(
            LeaderSettings(name, candidate, address, 1516, timing, preference),
            record,
            start or CurrentRole("worker"),
            become_master=self._become_master,
            publish=self._publish,
            ready=lambda connection: self.readiness,
            clock=SystemClock(),
            counters=self.counters,
        )

    def _become_master(self, term: Term) -> None:
        self.takeovers.append(term)
        self.takeover(term)

    async def _publish(self, role: CurrentRole, restart: bool) -> None:
        self.roles.append(role)

    @property
    def is_master(self) -> bool:
        return bool(self.roles) and self.roles[-1].role == "master"

    @property
    def term(self) -> int:
        return self.roles[-1].term.number if self.roles and self.roles[-1].term else 0

    def follows(self, name: str) -> bool:
        return bool(self.roles) and (self.roles[-1].term or Term(0, "", "", "", 0)).holder == name


@asynccontextmanager
async def running(*members: Member) -> AsyncIterator[None]:
    """The leaders of ``members`` run; they end as killed processes do."""
    tasks = [asyncio.create_task(each.leader.run()) for each in members]
    try:
        yield
        failed = [task for task in tasks if task.done()]
        for task in failed:
            task.result()
    finally:
        await cancel(*tasks)
        for each in members:
            with suppress(SecmonError):
                await each.leader._contact.close()


async def test_one_node_becomes_master_and_the_others_follow(record: RecordAddress) -> None:
    set_up(record).dispose()
    a, b, c = (Member(name, record) for name in "abc")
    async with running(a, b, c):
        await until(lambda: sum(each.is_master for each in (a, b, c)) == 1)
        [master] = [each for each in (a, b, c) if each.is_master]
        name = master.leader.status()["term"]["holder"]
        await until(lambda: all(each.follows(name) for each in (a, b, c)))
        assert [len(each.takeovers) for each in (a, b, c) if not each.is_master] == [0, 0]
        await until(lambda: master.leader.status()["candidates"] == ["a", "b", "c"])
        assert master.roles[-1].term is not None
        assert master.roles[-1].term.address == "127.0.0.1", "of the local socket"


async def test_a_node_that_may_not_be_master_only_follows(record: RecordAddress) -> None:
    set_up(record).dispose()
    a, b = Member("a", record, candidate=False), Member("b", record)
    async with running(a):
        await until(lambda: a.leader.status()["contacted"])
        assert a.roles == []
        async with running(b):
            await until(lambda: b.is_master and a.follows("b"))
        assert a.leader.status()["candidates"] in ([], ["b"])


async def test_a_silent_master_is_replaced_and_finds_its_term_over(record: RecordAddress) -> None:
    set_up(record).dispose()
    a, b = Member("a", record), Member("b", record)
    async with running(a):
        await until(lambda: a.is_master)
    old = a.roles[-1]
    async with running(b):
        await until(lambda: b.is_master, "b takes over from a node that is silent")
        again = Member("a", record, start=old)
        async with running(again):
            await until(lambda: again.follows("b"), "what is left of it becomes a worker")
        assert [role.role for role in again.roles] == ["worker"]
    assert b.term == a.term + 1


async def test_a_leader_that_starts_again_goes_on_with_its_term(record: RecordAddress) -> None:
    set_up(record).dispose()
    a = Member("a", record)
    async with running(a):
        await until(lambda: a.is_master)
    again = Member("a", record, start=a.roles[-1])
    async with running(again):
        await until(lambda: again.counters.snapshot().get("leadership.renewals", 0) > 1)
    assert again.roles == []


async def test_a_node_that_starts_again_takes_its_own_term_over(record: RecordAddress) -> None:
    set_up(record).dispose()
    a, b = Member("a", record), Member("b", record)
    async with running(b), running(a):
        await until(lambda: a.is_master or b.is_master)
    old = a if a.is_master else b
    again = Member("a" if old is a else "b", record)
    async with running(again):
        await until(lambda: again.is_master)
    assert (again.term, again.roles[-1].reason) == (
        old.term + 1,
        "this node was the master and has started again",
    )


async def test_an_orderly_stop_lets_another_take_over_without_waiting(
    record: RecordAddress, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    set_up(record).dispose()
    a, b = Member("a", record), Member("b", record)
    async with running(a):
        await until(lambda: a.is_master)
        task = asyncio.create_task(b.leader.run())
        await until(lambda: b.follows("a"))
    stopped = Member("a", record, start=a.roles[-1])
    await stopped.leader.stop()
    await until(lambda: b.is_master)
    await cancel(task)
    await b.leader.stop()
    assert b.roles[-1].reason == "a was stopped"
    assert "this node takes over: a was stopped" in caplog.text


async def test_a_switchover_to_a_named_node(record: RecordAddress) -> None:
    set_up(record).dispose()
    members = {name: Member(name, record) for name in "abc"}
    async with running(members["a"]):
        await until(lambda: members["a"].is_master)
        async with running(members["b"], members["c"]):
            await until(lambda: members["b"].leader.status()["candidates"] == ["a", "b", "c"])
            ended = await members["b"].leader.switch_over("c")
            assert ended.holder == "a"
            await until(lambda: members["c"].is_master and all(each.follows("c") for each in members.values()))
    assert members["b"].takeovers == []
    assert [role.role for role in members["a"].roles] == ["worker", "master", "worker"], "no pause before the end"


async def test_a_switchover_needs_a_node_that_can_follow(record: RecordAddress) -> None:
    set_up(record).dispose()
    a = Member("a", record)
    async with running(a):
        await until(lambda: a.is_master)
        for name in ("", "a", "z"):
            with pytest.raises(SecmonError) as refused:
                await a.leader.switch_over(name)
            assert refused.value.code == 3055
        assert a.leader.status()["resigned"] is False


async def test_a_successor_that_does_not_come_costs_a_moment(record: RecordAddress) -> None:
    set_up(record).dispose()
    a, b = Member("a", record), Member("b", record)
    async with running(a):
        await until(lambda: a.is_master)
        async with running(b):
            await until(lambda: a.leader.status()["candidates"] == ["a", "b"])
        await a.leader.switch_over("b")  # which has just died
        await until(lambda: a.is_master and a.term == 2)
    assert [term.number for term in a.takeovers] == [1, 2]


async def test_a_node_that_cannot_take_over_resigns_and_lets_others_go_first(record: RecordAddress) -> None:
    set_up(record).dispose()
    a, b = Member("a", record), Member("b", record)

    def full(term: Term) -> None:
        raise SecmonError(1006, "the disk is full")

    a.takeover = full
    async with running(a):
        await until(lambda: a.leader.status()["resigned"])
        async with running(b):
            await until(lambda: b.is_master)
    assert "a could not take over" in b.roles[-1].reason
    assert not any(role.role == "master" for role in a.roles)


def unable(member: Member) -> dict[str, str]:
    """By address, why nodes cannot become master."""
    return {each["address"]: each["reason"] for each in member.leader.status()["unable"]}


async def test_a_second_node_of_one_name_is_no_candidate(
    record: RecordAddress, caplog: pytest.LogCaptureFixture
) -> None:
    set_up(record).dispose()
    first = Member("a", record, address="10.0.0.1", timing=PATIENT)
    second = Member("a", record, address="10.0.0.2", timing=PATIENT)
    async with running(first):
        await until(lambda: first.is_master)
        async with running(second):
            clash = "another node, at 10.0.0.1:1516, has the name a: give each node a name of its own"
            await until(lambda: unable(first) == unable(second) == {"10.0.0.2": clash})
            await until(lambda: second.follows("a"))
            with pytest.raises(SecmonError, match="able are: none"):
                await first.leader.switch_over("a")
            assert f"this node cannot become master: {clash}" in caplog.text
            assert (second.takeovers, first.term) == ([], 1)
    stopped = Member("a", record, address="10.0.0.1", start=first.roles[-1])
    await stopped.leader.stop()
    async with running(second := Member("a", record, address="10.0.0.2", timing=PATIENT)):
        await until(lambda: second.is_master, "the name is free when the other node is gone")
        assert second.roles[-1].reason == "a was stopped"


async def test_a_node_that_lacks_what_a_master_needs_claims_no_term(record: RecordAddress) -> None:
    set_up(record).dispose()
    a, b = Member("a", record, address="10.0.0.1"), Member("b", record, address="10.0.0.2")
    a.readiness = Readiness("another cluster key")
    async with running(a):
        await until(lambda: unable(a) == {"10.0.0.1": "another cluster key"})
        async with running(b):
            await until(lambda: b.is_master and a.follows("b"))
            a.readiness = Readiness()
            await until(lambda: b.leader.status()["candidates"] == ["a", "b"])
        await until(lambda: a.is_master)
    assert a.term > 1


async def test_the_preferred_node_takes_over_and_of_two_the_one_that_is_up_to_date(record: RecordAddress) -> None:
    engine = set_up(record)
    a, b, c, d = (
        Member(name, record, preference=number, timing=PATIENT)
        for name, number in zip("abcd", (50, 50, 60, 60), strict=True)
    )
    c.readiness = Readiness(missing=BEHIND + 1)
    async with running(a):
        await until(lambda: a.is_master)
        async with running(b, c, d):
            await until(lambda: a.leader.status()["candidates"] == ["a", "b", "c", "d"])
            with engine.begin() as connection:
                assert terms.resign(connection, a.takeovers[0], "", "the test")
            await until(lambda: any(each.is_master for each in (b, c, d)))
    engine.dispose()
    assert [each.term for each in (b, c, d) if each.takeovers] == [2]
    assert d.is_master


async def test_the_lease_is_renewed_while_a_takeover_runs(record: RecordAddress) -> None:
    set_up(record).dispose()
    a, b = Member("a", record), Member("b", record)
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    a.takeover = lambda term: (
        asyncio.run_coroutine_threadsafe(asyncio.wait_for(done.wait(), LIMIT_SECONDS), loop).result() and None
    )
    async with running(a):
        await until(lambda: a.takeovers)
        async with running(b):
            await until(lambda: a.counters.snapshot().get("leadership.renewals", 0) * QUICK.contact > 2 * QUICK.ttl)
            done.set()
            await until(lambda: a.is_master)
    assert not b.is_master


async def test_the_master_goes_on_without_its_database_and_keeps_its_term(
    postgres: PostgresServer, record: RecordAddress, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    set_up(record).dispose()
    a, b = Member("a", record), Member("b", record)
    async with running(a):
        await until(lambda: a.is_master)
        async with running(b):
            await until(lambda: b.follows("a"))
            postgres.stop()
            try:
                await until(lambda: "the lease of this term may have run out" in caplog.text)
                assert a.is_master
                assert a.leader.status()["trouble"]
            finally:
                postgres.start()
            await until(lambda: "the database has answered, changes are accepted" in caplog.text)
            await until(lambda: not a.leader.status()["trouble"])
    assert [len(each.takeovers) for each in (a, b)] == [1, 0], "an outage of the database changes no master"


async def test_a_higher_term_that_others_show_ends_a_masters_term(record: RecordAddress) -> None:
    set_up(record).dispose()
    a = Member("a", record)
    async with running(a):
        await until(lambda: a.is_master)
        a.leader.shown(a.term + module.MAX_AHEAD + 1, "liar")
        a.leader.shown(5, "w")
        await until(lambda: a.is_master and a.term == 6, "the database knows no later one, so it begins one")
    assert [role.role for role in a.roles] == ["worker", "master", "worker", "worker", "master"]
    assert a.roles[2].reason == "w knows term 5"


async def test_a_store_that_holds_nothing_is_named(record: RecordAddress) -> None:
    engine = set_up(record)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM secmon.term"))
    a = Member("a", record)
    async with running(a):
        await until(lambda: "secmon store migrate" in a.leader.status()["trouble"])
    assert a.roles == []
    run_out(engine)
    engine.dispose()


async def test_no_connection_is_left_behind(postgres: PostgresServer, record: RecordAddress) -> None:
    set_up(record).dispose()
    database = record.url.split("?")[0].rpartition("/")[2]
    async with AsyncExitStack() as stack:
        a = Member("a", record)
        await stack.enter_async_context(running(a))
        await until(lambda: a.is_master)

    def sessions() -> int:
        with postgres.connect() as connection:
            found = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = %s", [database])
            return int(found.fetchone()[0])  # type: ignore[index]

    await until(lambda: sessions() == 0)
