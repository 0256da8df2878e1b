"""Calls that are repeated while there is no master."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.held_calls import NO_EFFECT, HeldCalls, is_read
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.outcome import Plain, Result
from tests.waiting import until

pytestmark = pytest.mark.anyio

DONE = Plain(message="done")


class Cluster:
    """Attempts fail with ``code`` until it is 0."""

    def __init__(self, code: int, *, seconds: float = 60) -> None:
        self.code, self.attempts = code, 0
        self.counters = Counters()
        self.calls = HeldCalls(SystemClock(), self.counters, seconds=seconds)

    async def attempt(self) -> Result:
        self.attempts += 1
        if self.code:
            raise SecmonError(self.code)
        return DONE

    async def refused(self, deadline: float | None = None) -> int:
        with pytest.raises(SecmonError) as caught:
            await self.calls.run(self.attempt, deadline)
        return caught.value.code


@pytest.mark.parametrize("code", sorted(NO_EFFECT))
async def test_a_call_without_effect_waits_for_the_next_master(code: int) -> None:
    cluster = Cluster(code)
    held = asyncio.create_task(cluster.calls.run(cluster.attempt, None))
    await until(lambda: cluster.attempts == 3)
    assert cluster.counters.snapshot()["calls.held"] == 1
    cluster.code = 0
    assert await held == DONE
    assert cluster.counters.snapshot() == {"calls.held": 0, "calls.repeated": cluster.attempts - 1}


@pytest.mark.parametrize("code", [3052, 3021, 3022, 3050, 4000])
async def test_other_errors_are_raised_at_once(code: int) -> None:
    cluster = Cluster(code)
    assert await cluster.refused() == code
    assert cluster.attempts == 1


async def test_a_call_is_held_no_longer_than_its_deadline_and_the_bound() -> None:
    cluster, clock = Cluster(3023, seconds=0.2), SystemClock()
    assert await cluster.refused() == 3023
    assert cluster.attempts > 1
    unbounded = Cluster(3012)
    assert await unbounded.refused(clock.monotonic() + 0.2) == 3012
    assert unbounded.attempts > 1
    never = Cluster(3051, seconds=0)
    assert await never.refused() == 3051
    assert never.attempts == 1


async def test_a_client_that_leaves_is_not_held() -> None:
    cluster = Cluster(3023)
    attempt: Callable[[], Awaitable[Result]] = cluster.attempt
    held = asyncio.create_task(cluster.calls.run(attempt, None))
    await until(lambda: cluster.attempts == 1)
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held
    assert cluster.counters.snapshot()["calls.held"] == 0


def test_reads() -> None:
    assert is_read(pb.ExecuteRequest(operation="GET /agents"))
    assert not is_read(pb.ExecuteRequest(operation="PUT /agents/restart"))
    assert not is_read(pb.ExecuteRequest(operation="GETTING /agents"))
