"""Writes of verified counters: their order, and the end of those in progress."""

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from secmon.agentlink.agent_table import Agent
from secmon.agentlink.counter_file import ReceiverCounters, read_counter
from secmon.agentlink.message_counters import CounterVerification
from secmon.agents.wire.counters import Counter
from secmon.agents.wire.keys import AgentKey
from tests.agentlink.field import KEY
from tests.waiting import LIMIT_SECONDS, until

pytestmark = pytest.mark.anyio


class SlowFiles(ReceiverCounters):
    """Each write waits for ``released``."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.began, self.released = threading.Event(), threading.Event()

    def save(self, counters: Iterable[tuple[str, Counter]]) -> None:
        self.began.set()
        assert self.released.wait(LIMIT_SECONDS)
        super().save(counters)


def agent() -> Agent:
    return Agent(1, AgentKey("001", "web-01", "any", KEY), None)


async def test_a_write_in_progress_does_not_restore_a_forgotten_counter(tmp_path: Path) -> None:
    files, one = SlowFiles(tmp_path), agent()
    verification = CounterVerification(files, flush_every=1)
    assert verification.refusal(one, Counter(0, 5)) is None
    await until(files.began.is_set)
    forgetting = asyncio.create_task(verification.forget(one))
    await asyncio.sleep(0)
    files.released.set()
    await forgetting
    await verification.close()
    assert not (tmp_path / "001").exists()


async def test_close_writes_the_last_counter_after_a_write_in_progress(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    files, one = SlowFiles(tmp_path), agent()
    verification = CounterVerification(files, flush_every=1)
    assert verification.refusal(one, Counter(0, 5)) is None
    await until(files.began.is_set)
    assert verification.refusal(one, Counter(0, 6)) is None
    closing = asyncio.create_task(verification.close())
    await asyncio.sleep(0)
    files.released.set()
    await closing
    assert read_counter(tmp_path / "001") == Counter(0, 6)
    assert asyncio.all_tasks() == before
