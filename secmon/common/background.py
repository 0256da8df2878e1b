"""Long-lived tasks of a daemon: none of them ends unnoticed.

A task may end by an exception, by returning, or by a cancellation from elsewhere: gRPC cancels the calls of a
channel that is closed, and the task that awaits one of them receives that as its own cancellation. All three are
handled alike here.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from secmon.common.backoff import Backoff

log = logging.getLogger("secmon.tasks")

Work = Callable[[], Coroutine[Any, Any, None]]
"""Starts the work of a task; called again at each restart."""


class TaskEnded(Exception):
    """A vital task has ended. The text names the task and its reason."""


class Background:
    """The long-lived tasks of one daemon, by name. Use it on one event loop.

    A task of :meth:`keep` is restarted with back-off. The end of one of :meth:`vital` is the end of the daemon: it
    holds what a restart of the task alone would lose.
    """

    def __init__(self) -> None:
        self._kept: dict[str, asyncio.Task[None]] = {}
        self._vital: dict[str, asyncio.Task[None]] = {}
        self._restarts: dict[str, int] = {}
        self._stopping = asyncio.Event()

    @property
    def restarts(self) -> Mapping[str, int]:
        """How often each task was restarted; all tasks of :meth:`keep` are listed."""
        return dict(self._restarts)

    def keep(self, name: str, work: Work) -> None:
        """Run ``work`` until :meth:`stop`, however often it ends."""
        self._restarts.setdefault(name, 0)
        self._kept[name] = asyncio.create_task(self._keep(name, work), name=f"restarts of {name}")

    def vital(self, name: str, work: Work) -> None:
        """Run ``work`` until it ends: in order once it was stopped (see :meth:`ended`), or as a failure."""
        self._vital[name] = asyncio.create_task(work(), name=name)

    async def failed(self) -> None:
        """Wait until :meth:`stop`. Raises TaskEnded when a vital task ends before."""
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({stopping, *self._vital.values()}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        for task in () if self._stopping.is_set() else self._vital.values():
            if task.done():
                raise TaskEnded(f"{task.get_name()}: {ending_of(task)}") from _error(task)

    async def ended(self, name: str) -> None:
        """Wait for the end of the vital task ``name``, which was stopped. Returns at once if it never started."""
        task = self._vital.pop(name, None)
        if task is None:
            return
        await asyncio.wait({task})
        if _error(task) is not None or task.cancelled():
            log.error("The task %s failed while stopping: %s", name, ending_of(task), exc_info=_error(task))

    async def stop(self, *names: str) -> None:
        """Cancel the tasks of :meth:`keep`, or only those with ``names``, and wait for their ends."""
        if not names:
            self._stopping.set()
        await cancel(*(self._kept.pop(name) for name in names or list(self._kept) if name in self._kept))

    async def _keep(self, name: str, work: Work) -> None:
        loop, backoff = asyncio.get_running_loop(), Backoff()
        while True:
            backoff.started(loop.time())
            task = asyncio.create_task(work(), name=name)
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                await cancel(task)  # it may have ended just now: its error must not be reported as one that was lost
                raise
            delay = backoff.ended(loop.time())
            again = f"in {delay:g} s" if delay else "at once"
            log.error("The task %s ended: %s; restarted %s", name, ending_of(task), again, exc_info=_error(task))
            self._restarts[name] += 1
            await asyncio.sleep(delay)


async def cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel ``tasks`` and wait for their ends."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def ending_of(task: asyncio.Task[Any]) -> str:
    """How ``task`` has ended, in words. It is done and was not cancelled."""
    if task.cancelled():
        return "it was cancelled from inside"
    error = task.exception()
    return "it returned" if error is None else f"{type(error).__name__}: {error}"


def cancelled_by_caller() -> bool:
    """Whether a CancelledError that was just caught is for this task, and not from something that it awaits."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _error(task: asyncio.Task[Any]) -> BaseException | None:
    return None if task.cancelled() else task.exception()
