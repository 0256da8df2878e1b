import asyncio
from contextlib import suppress

import pytest

from secmon.common.time_limit import within

pytestmark = pytest.mark.anyio


class Work:
    """Waits for what it is given, and remembers how it ended."""

    def __init__(self) -> None:
        self.ended = "not"

    async def wait(self, event: asyncio.Event) -> str:
        try:
            for _ in range(3):
                await asyncio.sleep(0)
            await event.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # what is cancelled may still wait, to clean up
            self.ended = "cancelled"
            raise
        self.ended = "done"
        return self.ended


async def answer() -> int:
    return 42


async def fail(waits: int) -> None:
    for _ in range(waits):
        await asyncio.sleep(0)
    raise KeyError("x")


async def test_work_that_never_waits_is_done_whatever_the_limit() -> None:
    assert await within(10, answer()) == 42
    assert await within(0, answer()) == 42
    assert await within(None, answer()) == 42


@pytest.mark.parametrize("waits", [0, 1, 3])
async def test_errors_pass(waits: int) -> None:
    with pytest.raises(KeyError):
        await within(10, fail(waits))


@pytest.mark.parametrize("seconds", [10, None])
async def test_work_that_waits(seconds: float | None) -> None:
    work, event = Work(), asyncio.Event()
    running = asyncio.create_task(within(seconds, work.wait(event)))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not running.done()
    event.set()
    assert await running == "done"


@pytest.mark.parametrize("seconds", [0, 0.01])
async def test_limit(seconds: float) -> None:
    work = Work()
    with pytest.raises(TimeoutError):
        await within(seconds, work.wait(asyncio.Event()))
    assert work.ended == "cancelled"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@pytest.mark.parametrize("turns", range(1, 6))
async def test_cancellation_reaches_the_work(turns: int) -> None:
    work = Work()
    running = asyncio.create_task(within(10, work.wait(asyncio.Event())))
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert work.ended == "cancelled"


async def test_a_limit_that_work_sets_itself() -> None:
    async def patient() -> str:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        return "went on"

    assert await within(10, patient()) == "went on"


async def test_a_group_begun_in_the_first_step() -> None:
    async def several() -> list[int]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(within(10, answer())) for _ in range(3)]
        return [task.result() for task in tasks]

    assert await within(10, several()) == [42, 42, 42]


async def test_a_result_of_another_thread() -> None:
    assert await within(10, asyncio.to_thread(lambda: "from there")) == "from there"
    with pytest.raises(ZeroDivisionError):
        await within(10, asyncio.to_thread(lambda: 1 / 0))
