"""Operations that are followed: events, their end, and the bounds of streams."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.types import Message

from secmon.api import event_stream
from secmon.api.event_stream import EventStreams
from secmon.common.counters import Counters
from secmon.common.outcome import Outcome
from secmon.security.revocation import revoke_all
from tests.api.conftest import Toy, expect_problem
from tests.api.toys import TOYS
from tests.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "REPEAT_SECONDS", 0.01)


async def events(lines: AsyncIterator[str], count: int) -> list[Any]:
    """The data of the next events."""
    found = []
    async for line in lines:
        if line.startswith("data: "):
            found.append(json.loads(line.removeprefix("data: ")))
            if len(found) == count:
                break
    return found


async def test_items_come_as_events_and_the_call_is_repeated(toy: Toy) -> None:
    async with toy.client.stream("GET", "/count", params={"start": 1}) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        lines = answer.aiter_lines()
        assert await events(lines, 5) == [{"n": number} for number in range(1, 6)]
        assert await anext(lines) == ""
        assert await anext(lines) == "id: 6"
        assert toy.counter("api.streams") == 1
    await until(lambda: toy.counter("api.streams") == 0)


async def test_a_stream_ends_with_its_token(toy: Toy) -> None:
    async with toy.client.stream("GET", "/count", params={"start": 4}) as answer:
        lines = answer.aiter_lines()
        await events(lines, 2)
        with toy.node.security.write() as tx:
            revoke_all(tx)
        rest = [line async for line in lines]
    assert "event: end" in rest
    assert json.loads(rest[rest.index("event: end") + 1].removeprefix("data: "))["reason"]
    await until(lambda: toy.counter("api.streams") == 0)


async def test_a_stream_that_cannot_begin_is_an_error(toy: Toy) -> None:
    answer = await toy.client.get("/count", params={"start": -1})
    expect_problem(answer, 404, "Resource Not Found")
    assert toy.counter("api.streams") == 0


async def test_streams_are_bounded(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_STREAMS_OF_USER", 1)
    async with toy.client.stream("GET", "/count") as answer:
        await events(answer.aiter_lines(), 1)
        refused = await toy.client.get("/count")
        assert refused.status_code == 429
    await until(lambda: toy.counter("api.streams") == 0)
    async with toy.client.stream("GET", "/count") as answer:
        assert answer.status_code == 200


async def test_the_call_is_not_repeated_while_its_events_wait_for_the_client() -> None:
    asked: list[object] = []
    waiting, released = asyncio.Event(), asyncio.Event()

    async def ask(params: object) -> Outcome:
        asked.append(params)
        return Outcome(items=[{"n": 1}], extra={"position": 1})

    async def send(message: Message) -> None:
        if b"data: " in message.get("body", b""):
            waiting.set()
            await released.wait()

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    operation = TOYS["GET /count"]
    stream = await EventStreams(Counters()).begin(operation, operation.defaults, "anna", ask)
    running = asyncio.create_task(stream({"type": "http"}, receive, send))
    await waiting.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(asked) == 1
    released.set()
    await until(lambda: len(asked) > 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
