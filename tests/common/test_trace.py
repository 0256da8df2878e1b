"""What is noted of the time that a request takes."""

import asyncio

import pytest

from secmon.common.trace import begin_trace, current_trace, span

pytestmark = pytest.mark.anyio


def work(step: str) -> None:
    with span(step):
        pass


async def test_steps_of_a_task_and_of_its_threads_and_tasks_are_noted() -> None:
    async def traced() -> set[tuple[str, str]]:
        trace = begin_trace()
        with span("queue", "w1"):
            await asyncio.to_thread(work, "store")
        await asyncio.create_task(asyncio.to_thread(work, "search"))
        return set(trace.seconds)

    assert await asyncio.create_task(traced()) == {("w1", "queue"), ("", "store"), ("", "search")}
    assert current_trace() is None, "the trace ends with its task"
    work("store")  # as before, without anything to note it


async def test_the_times_of_a_step_are_added_up_also_when_it_fails() -> None:
    async def traced() -> None:
        trace = begin_trace()
        trace.add("store", 1.5)
        trace.add("store", 0.5)
        with pytest.raises(ValueError), span("function"):
            raise ValueError
        assert trace.seconds["", "store"] == 2
        assert trace.elapsed() >= trace.seconds["", "function"] >= 0

    await asyncio.create_task(traced())
