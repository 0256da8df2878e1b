"""Work in threads whose task is cancelled."""

import asyncio
import threading

import pytest

from secmon.common.to_the_end import to_the_end
from tests.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.anyio


async def test_the_result_comes_back() -> None:
    assert await to_the_end(lambda: 42) == 42
    with pytest.raises(LookupError):
        await to_the_end(lambda: dict[str, int]()["x"])


@pytest.mark.parametrize("fails", [False, True])
async def test_a_cancelled_task_waits_for_the_end_of_its_work(fails: bool) -> None:
    begun, may_end, done = threading.Event(), threading.Event(), []

    def work() -> None:
        begun.set()
        may_end.wait(LIMIT_SECONDS)
        done.append("work")
        if fails:
            raise OSError("the disk")

    async def task() -> None:
        try:
            await to_the_end(work)
        finally:
            done.append("task")

    running = asyncio.create_task(task())
    await asyncio.to_thread(begun.wait, 30)
    running.cancel()
    await asyncio.sleep(0)
    assert not running.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert done == ["work", "task"]
