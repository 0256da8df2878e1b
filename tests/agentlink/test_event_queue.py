"""When events are written to the journal."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from secmon.agentlink import event_queue as eventqueue
from secmon.agentlink.event_queue import EventQueue
from secmon.common.clock import SystemClock
from secmon.journal.journal import JournalReader, JournalWriter
from tests.filelimit import file_size_limit
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def test_an_event_after_a_pause_is_written_at_once_and_those_that_follow_share_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eventqueue, "GATHER_SECONDS", 3600.0)
    reader = JournalReader(tmp_path, "test")
    queue = EventQueue(
        JournalWriter(tmp_path, SystemClock(), limit=1 << 20, segment=1 << 18), size=1000, on_room=lambda: None
    )
    running = asyncio.create_task(queue.run())
    queue.add(b"1:a:first")
    await until(lambda: queue.usage == 0, what="the first is written")
    for number in range(5):
        queue.add(b"1:a:%d" % number)
        await asyncio.sleep(0.01)
    assert queue.usage == 5
    monkeypatch.setattr(eventqueue, "GATHER_SECONDS", 0.0)
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
    monkeypatch.setattr(eventqueue, "DISK_RETRY_SECONDS", 0.0)
    caplog.set_level(logging.INFO, "secmon.agentlink")
    reader = JournalReader(tmp_path, "test")
    journal = JournalWriter(tmp_path, SystemClock(), limit=1 << 20, segment=1 << 18)
    tries, append = [], journal.append

    def observed(events: Sequence[bytes]) -> None:
        tries.append(events)
        append(events)

    monkeypatch.setattr(journal, "append", observed)
    queue = EventQueue(journal, size=1000, on_room=lambda: None)
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
        f"Events cannot be written, and wait: {segment}: File too large",
        "Events are written again",
    ]
