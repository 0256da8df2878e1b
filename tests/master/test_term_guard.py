"""A master begins calls in its term only, and calls to other nodes once these have joined it."""

import asyncio
from pathlib import Path

import pytest
from msgspec import structs

from secmon.cluster.call import Call
from secmon.cluster.leadership.known_term import KnownTerm
from secmon.cluster.leadership.role_file import CurrentRole, write_role
from secmon.cluster.leadership.term import Term
from secmon.common.errors import SecmonError
from secmon.common.identity import local_identity
from secmon.common.outcome import Plain, Result
from secmon.master.term_guard import CLOSED_SECONDS, TermGuard
from secmon.operations.all import EXECUTABLE
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio

CALL = Call(operation=EXECUTABLE["GET /groups"], params=None, identity=local_identity(), request_id="r1")
TO_NODES = structs.replace(CALL, operation=EXECUTABLE["GET /cluster/api/config"])


class Router:
    """Runs calls, or raises ``code``."""

    def __init__(self) -> None:
        self.code, self.calls = 0, 0

    async def route(self, call: Call) -> Result:
        self.calls += 1
        if self.code:
            raise SecmonError(self.code)
        return Plain()


class Master:
    """A guarded router of a node that holds term 7."""

    def __init__(self, file: Path) -> None:
        self.file, self.router, self.clock = file, Router(), ManualClock()
        self.know(7)
        self.joined = asyncio.Event()
        known, gathered = KnownTerm(file), self.joined.wait
        self.guard = TermGuard("a", self.router, known, self.clock, gathered=gathered)

    def know(self, number: int) -> None:
        write_role(self.file, CurrentRole("master", Term(number, "id", "a", "10.0.0.1", 1516)))

    async def refused(self) -> SecmonError:
        with pytest.raises(SecmonError) as caught:
            await self.guard.route(CALL)
        return caught.value


@pytest.fixture
def master(tmp_path: Path) -> Master:
    return Master(tmp_path / "role")


async def test_calls_run_while_the_term_lasts(master: Master) -> None:
    assert await master.guard.route(CALL) == Plain()
    master.router.code = 3050
    assert (await master.refused()).code == 3050
    master.router.code = 0
    assert await master.guard.route(CALL) == Plain()


async def test_calls_to_nodes_wait_for_them(master: Master) -> None:
    asked = asyncio.create_task(master.guard.route(TO_NODES))
    assert await master.guard.route(CALL) == Plain()
    assert not asked.done()
    master.joined.set()
    assert await asked == Plain()


async def test_no_call_begins_once_a_later_term_is_known(master: Master) -> None:
    master.know(8)
    error = await master.refused()
    assert (error.code, list(error.nodes)) == (3051, ["a"])
    assert master.router.calls == 0


async def test_no_call_begins_for_a_while_after_a_change_was_refused(master: Master) -> None:
    master.router.code = 3051
    assert (await master.refused()).code == 3051
    master.router.code = 0
    assert (await master.refused()).code == 3051
    assert master.router.calls == 1
    master.clock.advance(CLOSED_SECONDS)
    assert await master.guard.route(CALL) == Plain(), "the node has kept its role"
