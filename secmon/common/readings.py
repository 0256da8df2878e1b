"""Values that are read once for several callers, where each reading takes a thread, files or another process."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Read = Callable[[], Coroutine[Any, Any, T]]


class RecentReading(Generic[T]):
    """What ``read`` gives, for all callers of the next ``seconds``; errors too. For one event loop."""

    def __init__(self, read: Read[T], seconds: float) -> None:
        self._read = read
        self._seconds = seconds
        self._reading: asyncio.Future[T] | None = None
        self._until = 0.0

    async def value(self) -> T:
        """Of a reading that began at most ``seconds`` ago. A caller that is cancelled does not end it."""
        now = asyncio.get_running_loop().time()
        if self._reading is None or now >= self._until:
            self._until = now + self._seconds
            self._reading = asyncio.ensure_future(self._read())
        return self._reading.result() if self._reading.done() else await asyncio.shield(self._reading)


class NextReading(Generic[T]):
    """What ``read`` gives, for all who called before it began: one that runs is not for those who come then.

    One reading at a time. For one event loop.
    """

    def __init__(self, read: Read[T]) -> None:
        self._read = read
        self._running: asyncio.Future[T] | None = None
        self._next: asyncio.Future[T] | None = None

    async def value(self) -> T:
        """Of a reading that begins after this call. A caller that is cancelled does not end it."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._after(self._running))
        return await asyncio.shield(self._next)

    async def _after(self, running: "asyncio.Future[T] | None") -> T:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._next = self._next, None
        return await self._read()
