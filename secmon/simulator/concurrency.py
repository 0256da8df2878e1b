"""A bound on concurrent work, without a task for each piece that waits."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

Work = Callable[[], Awaitable[None]]


class ConcurrencyLimit:
    """Runs at most ``limit`` pieces of work at a time; the others wait in their order."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[Work] = deque()
        self._running: set[asyncio.Task[None]] = set()

    def submit(self, work: Work) -> None:
        """Run ``work`` as soon as there is room. It handles its own errors; others go to the loop's handler."""
        self._waiting.append(work)
        self._fill()

    async def close(self) -> None:
        """Cancel all running and waiting work."""
        self._waiting.clear()
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._limit:
            task = asyncio.ensure_future(_run(self._waiting.popleft()))
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            task.get_loop().call_exception_handler({"message": "fleet work failed", "exception": error, "task": task})
        self._fill()


async def _run(work: Work) -> None:
    await work()
