"""Requests whose answers are late: remembered and logged, with no secret of theirs."""

import asyncio
from datetime import timedelta

import pytest

from tests.api.conftest import Toy
from tests.waiting import until

pytestmark = pytest.mark.anyio

DAY = timedelta(days=1)


async def wait(toy: Toy, seconds: float) -> None:
    """A request whose operation takes so long by the clock of the node."""
    asked = asyncio.create_task(toy.client.get("/wait"))
    await toy.latch.started.wait()
    toy.node.clock.advance(seconds)  # type: ignore[attr-defined] # it is a manual one
    toy.latch.released.set()
    assert (await asked).status_code == 200
    await until(lambda: "GET /wait" in toy.log(), what="the request is logged")


async def test_a_slow_request_is_remembered_and_logged(toy: Toy) -> None:
    toy.node.slow_requests.threshold_seconds = 1.0
    await wait(toy, 2.0)
    await until(lambda: toy.counter("api.requests.slow"), what="the request is remembered")
    (found,) = toy.node.slow_requests.worst(since=DAY, limit=9)
    assert (found.method, found.path, found.seconds, found.node) == ("GET", "/wait", 2.0, toy.node.name)
    assert found.id == toy.latch.calls[0].request_id
    await until(lambda: " took 2.000 s on node " in toy.log(), what="the line about the slow request")
    (line,) = [each for each in toy.log().splitlines() if " took 2.000 s on node " in each]
    assert found.id in line
    assert toy.counter("api.requests.slow") == 1
    token = toy.client.headers["Authorization"].partition(" ")[2]
    assert token not in repr(found) + line


async def test_strangers_push_no_request_out(toy: Toy) -> None:
    toy.node.slow_requests.threshold_seconds = 1e-9
    del toy.client.headers["Authorization"]
    assert (await toy.client.get("/wait")).status_code == 401
    assert (await toy.client.get("/nowhere")).status_code == 404
    assert toy.node.slow_requests.worst(since=DAY, limit=9) == []


async def test_off(toy: Toy) -> None:
    toy.node.slow_requests.threshold_seconds = 0
    await wait(toy, 9.0)
    assert toy.node.slow_requests.worst(since=DAY, limit=9) == []
