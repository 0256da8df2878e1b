"""Missing keys of refused agents: which ones the link publishes, and which it ignores."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from secmon.agentlink.local_socket import LocalSocket
from secmon.agentlink.missing_keys import MAX_RECENT, REPEAT_SECONDS, MissingKeys
from secmon.agentlink.subscribers import MAX_WAITING
from secmon.agents.link.client import LinkClient
from secmon.agents.link.wire import Answer, MissingKey, Question
from tests.manual_clock import ManualClock
from tests.waiting import until

pytestmark = pytest.mark.anyio


class KeyRequester:
    """A local socket and a client that follows it."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.local = LocalSocket(path, self._answer)
        self.wanted = MissingKeys(self.clock, self.local.keys)
        self.got: list[str] = []
        self._client = LinkClient(path)

    async def _answer(self, question: Question) -> Answer:
        return Answer()

    async def follow(self) -> None:
        async with aclosing(self._client.keys()) as keys:
            async for wanted in keys:
                self.got.append(str(wanted))


@asynccontextmanager
async def key_requester(folder: Path, *, listening: bool = True) -> AsyncIterator[KeyRequester]:
    made = KeyRequester(folder / "remote")
    await made.local.open()
    task = asyncio.create_task(made.follow()) if listening else None
    try:
        if listening:
            await until(lambda: len(made.local.keys) == 1)
        yield made
    finally:
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await made.local.close()


async def test_a_missing_key_is_published_once_in_a_period(tmp_path: Path) -> None:
    async with key_requester(tmp_path) as here:
        for _ in range(100):
            here.wanted.report("id", "007")
            here.wanted.report("ip", "10.0.0.7")
        await until(lambda: len(here.got) == 2)
        here.clock.advance(REPEAT_SECONDS)
        here.wanted.report("id", "007")
        await until(lambda: len(here.got) == 3)
        assert here.got == ["id:007", "ip:10.0.0.7", "id:007"]
        assert (here.wanted.handed, here.wanted.dropped) == (3, 0)


async def test_long_values_are_ignored(tmp_path: Path) -> None:
    async with key_requester(tmp_path) as here:
        here.wanted.report("id", "123456789")
        here.wanted.report("ip", "2001:0DB8:0000:0000:0000:0000:0000:0017")
        here.wanted.report("id", "12345678")
        await until(lambda: here.got)
        assert here.got == ["id:12345678"]


async def test_nothing_is_counted_without_subscribers(tmp_path: Path) -> None:
    async with key_requester(tmp_path, listening=False) as here:
        here.wanted.report("id", "007")
        assert (here.wanted.handed, here.wanted.dropped) == (0, 0)
        assert not here.wanted._recent


async def test_requests_beyond_the_queue_are_dropped_and_can_be_repeated(tmp_path: Path) -> None:
    async with key_requester(tmp_path) as here:
        for number in range(MAX_WAITING + 5):  # no wait in between: the listener has no turn
            here.wanted.report("id", str(number))
        assert (here.wanted.handed, here.wanted.dropped) == (MAX_WAITING, 5)
        await until(lambda: len(here.got) == MAX_WAITING)
        here.wanted.report("id", str(MAX_WAITING))
        await until(lambda: here.got[-1] == f"id:{MAX_WAITING}")


async def test_the_memory_is_bounded(tmp_path: Path) -> None:
    async with key_requester(tmp_path) as here:
        for number in range(MAX_RECENT + 500):
            here.wanted.report("id", str(number))
            if number % 500 == 0:
                await until(lambda: len(here.got) == here.wanted.handed)
        assert here.wanted.dropped == 0
        assert len(here.wanted._recent) == MAX_RECENT
        assert MissingKey("id", "499") not in here.wanted._recent
