"""When events are written to the journal, who is notified, and what a full disk or journal does."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from secmon.journal import batch_writer
from secmon.journal.journal import JournalReader
from tests.filelimit import file_size_limit
from tests.journal.writing import stored, writer, writing
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def test_an_event_after_a_pause_is_written_at_once_and_those_that_follow_share_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_writer, "GATHER_SECONDS", 3600.0)
    reader = JournalReader(tmp_path, "test")
    queue = writer(tmp_path)
    running = asyncio.create_task(queue.run())
    queue.add(b"1:a:first")
    await until(lambda: queue.usage == 0, what="the first is written")
    for number in range(5):
        queue.add(b"1:a:%d" % number)
        await asyncio.sleep(0.01)
    assert queue.usage == 5
    monkeypatch.setattr(batch_writer, "GATHER_SECONDS", 0.0)
    queue.stop()
    running.cancel()  # it waits for the hour to end
    await asyncio.gather(running, return_exceptions=True)
    last = asyncio.create_task(queue.run())
    await last
    queue.close()
    assert [list(block.events) for block in reader.read()] == [
        [b"1:a:first"],
        [b"1:a:%d" % number for number in range(5)],
    ]
    reader.close()


async def test_a_full_disk_is_logged_once_and_costs_no_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(batch_writer, "DISK_RETRY_SECONDS", 0.0)
    caplog.set_level(logging.INFO, "test")
    reader = JournalReader(tmp_path, "test")
    queue = writer(tmp_path)
    tries, append = [], queue.journal.append

    def observed(events: Sequence[bytes]) -> None:
        tries.append(events)
        append(events)

    monkeypatch.setattr(queue.journal, "append", observed)
    running = asyncio.create_task(queue.run())
    with file_size_limit(10):
        queue.add(b"1:a:first")
        await until(lambda: len(tries) > 5, what="it tries again")
        assert queue.usage == 1
    await until(lambda: queue.usage == 0, what="the event is written")
    queue.stop()
    await running
    queue.close()
    assert [list(block.events) for block in reader.read()] == [[b"1:a:first"]]
    reader.close()
    segment = next(tmp_path.glob("*.events"))
    assert caplog.messages == [
        f"Events wait because they cannot be written: {segment}: File too large",
        "Events are written again",
    ]


async def test_acknowledged_events_are_stored(tmp_path: Path) -> None:
    reader = JournalReader(tmp_path, "test")
    async with writing(tmp_path) as queue:
        await asyncio.gather(*(queue.store([b"%d" % number] * 3) for number in range(20)))
        assert sorted(stored(reader)) == sorted(b"%d" % number for number in range(20) for _ in range(3))
        queue.add(b"last")
    assert stored(reader) == [b"last"]
    reader.close()


async def test_a_full_disk_delays_events_and_loses_none(tmp_path: Path) -> None:
    reader = JournalReader(tmp_path, "test")
    async with writing(tmp_path) as queue:
        with file_size_limit(1000):
            waiting = asyncio.create_task(queue.store([b"x" * 600] * 3))
            await until(lambda: queue.trouble)
            assert not waiting.done()
        await waiting
        assert stored(reader) == [b"x" * 600] * 3
        assert not queue.trouble
    reader.close()


async def test_a_full_journal_refuses_acknowledged_events(tmp_path: Path) -> None:
    reader = JournalReader(tmp_path, "test")
    async with writing(tmp_path, size=10, limit=1 << 16) as queue:
        tasks = []
        for _ in range(200):
            tasks.append(asyncio.create_task(queue.store([b"x" * 1000])))
            await asyncio.sleep(0)
        refused = [task for task in tasks if task.done() and isinstance(task.exception(), BlockingIOError)]
        assert refused
        read = 0
        while not all(task.done() for task in tasks):
            read += len(stored(reader))
            await asyncio.sleep(0.01)
        read += len(stored(reader))
        assert read == sum(task.exception() is None for task in tasks)
    reader.close()


async def test_a_stop_fails_those_who_wait_for_events_that_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither these events nor later ones are acknowledged."""
    reader = JournalReader(tmp_path, "test")
    with file_size_limit(1000):
        async with writing(tmp_path) as queue:
            waiting = [asyncio.create_task(queue.store([b"x" * 600] * 3))]
            await until(lambda: queue.trouble)
            waiting.append(asyncio.create_task(queue.store([b"small"])))
            await until(lambda: queue.usage == 4)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(result) for result in results] == ["the journal of events is closed"] * 2
    assert stored(reader) == []
    assert "Events: 4 could not be written before the stop" in caplog.messages
    reader.close()


async def test_room_is_announced_once_for_each_write_that_makes_it(tmp_path: Path) -> None:
    rooms: list[int] = []
    async with writing(tmp_path, size=10) as queue:
        queue.on_room = lambda: rooms.append(queue.period)
        for number in range(10):
            queue.add(b"many")
            assert queue.half_full is (number >= 4)
            assert queue.full is (number == 9)
        await until(lambda: not queue.half_full, what="they are written")
        assert not queue.full
        assert queue.usage == 0
    assert rooms == [1]


async def test_a_write_of_few_events_announces_no_room(tmp_path: Path) -> None:
    rooms: list[int] = []
    async with writing(tmp_path, size=10) as queue:
        queue.on_room = lambda: rooms.append(queue.period)
        for _ in range(4):
            queue.add(b"few")
        assert not queue.half_full
    assert rooms == []


async def test_long_events_take_more_room(tmp_path: Path) -> None:
    async with writing(tmp_path, size=1 << 10) as queue:  # an event of 16 KiB each on average
        queue.add(b"x" * 70_000)
        assert queue.load == 1 + 4 == queue.cost(65536)
