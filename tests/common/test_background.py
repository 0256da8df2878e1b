"""Long-lived tasks, and the ways in which they end."""

import asyncio
import gc
import logging

import pytest

from secmon.common.background import Background, TaskEnded, cancelled_by_caller
from tests.waiting import until

pytestmark = pytest.mark.anyio
WAYS = ("exception", "cancellation", "return")


class Ending:
    """Work that ends in one of the ways as often as it has leave to, and then goes on."""

    def __init__(self, way: str, times: int = 1) -> None:
        self.way, self.times = way, times
        self.starts = 0
        self.cancelled = False

    async def run(self) -> None:
        self.starts += 1
        if self.starts > self.times:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled = cancelled_by_caller()
        match self.way:
            case "exception":
                raise LookupError("lost")
            case "cancellation":
                inner = asyncio.get_running_loop().create_future()
                inner.cancel()
                await inner


@pytest.mark.parametrize("way", WAYS)
async def test_a_task_that_ends_is_logged_counted_and_restarted(way: str, caplog: pytest.LogCaptureFixture) -> None:
    tasks, work = Background(), Ending(way)
    tasks.keep("reader", work.run)
    tasks.keep("other", asyncio.Event().wait)  # type: ignore[arg-type]
    await until(lambda: work.starts == 2)
    reason = {"exception": "LookupError: lost", "cancellation": "cancelled from inside", "return": "it returned"}[way]
    [line] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "reader" in line.getMessage()
    assert reason in line.getMessage()
    assert dict(tasks.restarts) == {"reader": 1, "other": 0}
    await tasks.stop()
    assert work.cancelled


async def test_a_task_that_ends_again_waits(caplog: pytest.LogCaptureFixture) -> None:
    tasks, work = Background(), Ending("return", times=2)
    tasks.keep("reader", work.run)
    await until(lambda: work.starts == 3)
    assert [record.getMessage().rpartition("restarted ")[2] for record in caplog.records] == ["at once", "in 0.5 s"]
    await tasks.stop()


@pytest.mark.parametrize("way", WAYS)
async def test_the_end_of_a_vital_task_is_that_of_the_daemon(way: str) -> None:
    tasks, work = Background(), Ending(way)
    tasks.keep("kept", Ending("return").run)
    tasks.vital("writer", work.run)
    with pytest.raises(TaskEnded, match="writer: "):
        await tasks.failed()
    await tasks.stop()


async def test_a_vital_task_is_waited_for_at_a_stop(caplog: pytest.LogCaptureFixture) -> None:
    tasks, reported = Background(), asyncio.Event()
    written: list[str] = []

    async def write() -> None:
        await reported.wait()
        await asyncio.sleep(0.01)
        written.append("all")
        raise OSError("the disk is full")

    tasks.vital("writer", write)
    failed = asyncio.create_task(tasks.failed())
    await asyncio.sleep(0)
    await tasks.stop()
    await failed
    reported.set()
    await tasks.ended("writer")
    await tasks.ended("never started")
    assert written == ["all"]
    assert "the disk is full" in caplog.text


async def test_without_vital_tasks_a_daemon_runs_until_its_stop() -> None:
    tasks = Background()
    waiting = asyncio.create_task(tasks.failed())
    tasks.keep("a", Ending("return").run)
    await tasks.stop("a")
    assert not waiting.done()
    await tasks.stop()
    await waiting


@pytest.mark.parametrize("turns", range(4))
async def test_a_task_that_fails_as_it_is_stopped(turns: int) -> None:
    """The event loop does not report its error as one that was never retrieved: that fails the test."""
    tasks, failing = Background(), asyncio.Event()

    async def work() -> None:
        await failing.wait()
        raise LookupError("lost")

    tasks.keep("reader", work)
    for _ in range(3):
        await asyncio.sleep(0)
    failing.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    await tasks.stop()
    gc.collect()
    await asyncio.sleep(0)


async def test_a_stop_during_the_pause_before_a_restart() -> None:
    tasks, work = Background(), Ending("exception", times=99)
    tasks.keep("reader", work.run)
    await until(lambda: work.starts == 2)
    await tasks.stop()
    assert work.starts == 2
