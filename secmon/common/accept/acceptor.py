"""Accepts connections for a protocol that runs behind a :class:`~secmon.common.accept.limiter.ConnectionLimiter`."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from secmon.common.accept.limiter import ConnectionLimiter, Slot

AT_ONCE = 64
"""Connections accepted in one turn of the loop; other work of the loop is done in between."""
PAUSE_SECONDS = 0.1
"""Without descriptors or memory, accepting is tried again after this time."""
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

Serve = Callable[[socket.socket, "Accepted"], Coroutine[Any, Any, None]]


class Accepted:
    """An accepted connection: it is served by a task, and ended by cancelling that, or by aborting ``transport``."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.slot: Slot
        self.task: asyncio.Task[None] | None = None
        self.transport: asyncio.WriteTransport | None = None
        """Set by those who go on without the task."""

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        elif self.task is not None:
            self.task.cancel()


class Acceptor:
    """Listens from :meth:`start` to :meth:`close`. ``serve`` gets each connection that has a slot, and ends with it, or
    sets ``transport`` and releases the slot later by itself."""

    def __init__(
        self, sockets: Sequence[socket.socket], limiter: ConnectionLimiter, serve: Serve, log: logging.Logger
    ) -> None:
        """``sockets`` listen already, and are closed by the caller."""
        self.limiter = limiter
        self._sockets, self._serve, self._log = sockets, serve, log
        self._tasks: set[asyncio.Task[None]] = set()
        self._paused: dict[socket.socket, asyncio.TimerHandle] = {}

    def start(self) -> None:
        for listener in self._sockets:
            listener.setblocking(False)
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def close(self) -> None:
        """Take nothing new; connections go on."""
        loop = asyncio.get_running_loop()
        for listener in self._sockets:
            if listener.fileno() >= 0:
                loop.remove_reader(listener)
        for handle in self._paused.values():
            handle.cancel()
        self._paused.clear()

    async def finish(self, seconds: float | None = None) -> None:
        """Wait for tasks that serve; those that take longer than ``seconds`` are cancelled."""
        if self._tasks:
            _, late = await asyncio.wait(list(self._tasks), timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _SHORTAGES:
                    raise
                self._pause(listener, error)
                return
            self._take(connection, str(address[0]))

    def _pause(self, listener: socket.socket, error: OSError) -> None:
        """The kernel keeps the connections meanwhile."""
        self._log.error("connections cannot be accepted: %s", error.strerror)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener)
        self._paused[listener] = loop.call_later(
            PAUSE_SECONDS, loop.add_reader, listener, self._accept, listener
        )  # fmt: skip

    def _take(self, connection: socket.socket, address: str) -> None:
        accepted = Accepted(address.removeprefix("::ffff:"))
        slot = self.limiter.take(accepted.address, accepted.close)
        if slot is None:
            connection.close()
            return
        connection.setblocking(False)
        accepted.slot = slot
        task = accepted.task = asyncio.get_running_loop().create_task(self._serve(connection, accepted))
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, connection, accepted))

    def _ended(self, connection: socket.socket, accepted: Accepted, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if accepted.transport is None:
            self.limiter.release(accepted.slot)
            connection.close()
        error = None if task.cancelled() else task.exception()
        if isinstance(error, OSError):  # TimeoutError too
            self._log.debug("%s: the connection broke: %s", accepted.address, error or type(error).__name__)
        elif error is not None:
            self._log.error("%s: a connection failed", accepted.address, exc_info=error)
