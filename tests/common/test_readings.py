"""Readings that callers share: how old they may be."""

import asyncio

import pytest

from secmon.common.readings import NextReading, RecentReading

pytestmark = pytest.mark.anyio


class Source:
    """Numbers its readings; each ends when it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.free = asyncio.Event()

    async def read(self) -> int:
        self.begun += 1
        number = self.begun
        await self.free.wait()
        return number


async def turns() -> None:
    """Let all tasks go as far as they can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_recent_reading_serves_all() -> None:
    source = Source()
    reading = RecentReading(source.read, 3600)
    waiting = [asyncio.create_task(reading.value()) for _ in range(3)]
    await turns()
    waiting[0].cancel()  # the one who began it
    source.free.set()
    assert await asyncio.gather(*waiting[1:]) == [1, 1]
    assert await reading.value() == 1


async def test_an_old_reading_serves_nobody_even_while_it_runs() -> None:
    source = Source()
    reading = RecentReading(source.read, 0)
    waiting = [asyncio.create_task(reading.value())]
    await turns()
    waiting.append(asyncio.create_task(reading.value()))
    await turns()
    source.free.set()
    assert await asyncio.gather(*waiting) == [1, 2]


async def test_a_reading_that_runs_is_not_for_those_who_come_then() -> None:
    source = Source()
    reading = NextReading(source.read)
    early = [asyncio.create_task(reading.value()) for _ in range(2)]
    await turns()
    late = [asyncio.create_task(reading.value()) for _ in range(3)]
    await turns()
    assert source.begun == 1
    late[0].cancel()
    source.free.set()
    assert await asyncio.gather(*early) == [1, 1]
    assert await asyncio.gather(*late[1:]) == [2, 2]
    assert await reading.value() == 3


async def test_a_reading_that_fails_does_not_stop_the_next() -> None:
    results = iter((OSError("gone"), 7))

    async def read() -> int:
        await asyncio.sleep(0)
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    reading = NextReading(read)
    first = asyncio.create_task(reading.value())
    await turns()
    second = asyncio.create_task(reading.value())
    with pytest.raises(OSError, match="gone"):
        await first
    assert await second == 7
