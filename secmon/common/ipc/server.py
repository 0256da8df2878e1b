"""The unix socket of a daemon at which other processes of the node call it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from secmon.common.background import cancel
from secmon.common.ipc.framing import FrameTooLong, frame, read_frame
from secmon.common.ipc.unix_listener import UnixListener, share_with_group

log = logging.getLogger("secmon.sockets")

Answers = AsyncGenerator[bytes, None]
"""The answers to a subscription: one frame each, until the client closes the connection."""

Handler = Callable[[bytes], Awaitable[bytes | Answers]]
"""Gets the payload of a request; returns the payload of its answer, or of all answers to a subscription."""


class InvalidRequest(Exception):
    """Raised by a handler: the connection is closed without an answer."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What clients may take."""

    request: int
    """Bytes of one request."""
    clients: int
    """Connections at once."""
    idle_seconds: float = 30.0
    """To send a request, and to take an answer."""


class FrameServer:
    """Answers frames at ``path`` while open, those of one connection in order.

    Processes that may open the socket are trusted. A client that is silent, slow or sends too much loses its own
    connection.
    """

    def __init__(
        self,
        path: Path,
        handler: Handler,
        limits: Limits,
        *,
        too_long: bytes = b"",
        too_many: bytes = b"",
        cancels: bool = False,
        share: Callable[[Path], None] = share_with_group,
    ) -> None:
        """``too_long`` and ``too_many`` are sent, unless empty, before a connection beyond the limits is closed.

        ``cancels``: a client that closes its connection cancels the handler. ``share`` gives the socket owner and mode.
        """
        self._path, self._handler, self._limits = path, handler, limits
        self._too_long, self._too_many, self._cancels = too_long, too_many, cancels
        self._listener = UnixListener(path, self._serve, share=share)
        self._clients: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen. Raises OSError."""
        await self._listener.open()

    async def tend(self) -> None:
        """Listen again when the socket was removed from its folder; connections stay open. Raises OSError."""
        await self._listener.tend()

    async def close(self) -> None:
        """Remove the socket and end all connections; calls under way are cancelled, except one that closes this."""
        self._listener.close()
        await cancel(*(task for task in self._clients if task is not asyncio.current_task()))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        self._clients.add(task)
        try:
            if len(self._clients) > self._limits.clients:
                await self._refuse(writer, self._too_many)
            else:
                await self._converse(reader, writer)
            writer.close()
            async with asyncio.timeout(self._limits.idle_seconds):
                await writer.wait_closed()
        except (OSError, InvalidRequest, asyncio.CancelledError) as error:  # a time-out is an OSError
            # The client is slow or gone, or the server closes. The connection ends, with what was not taken of it; the
            # task ends normally, since it has no other waiter than close().
            log.debug("A connection to %s ended: %r", self._path, error)
            writer.transport.abort()
        finally:
            self._clients.discard(task)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                async with asyncio.timeout(self._limits.idle_seconds):
                    request = await read_frame(reader, self._limits.request)
            except FrameTooLong:
                await self._refuse(writer, self._too_long)
                return
            if request is None:
                return
            answering = self._answer(request, writer)
            if not self._cancels:
                await answering
            elif not await _unless_closed(reader, answering):
                return

    async def _answer(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        answer = await self._handler(request)
        if isinstance(answer, bytes):
            await self._send(writer, answer)
            return
        async with aclosing(answer):
            async for each in answer:
                await self._send(writer, each)

    async def _refuse(self, writer: asyncio.StreamWriter, refusal: bytes) -> None:
        if refusal:
            await self._send(writer, refusal)

    async def _send(self, writer: asyncio.StreamWriter, answer: bytes) -> None:
        writer.write(frame(answer))
        async with asyncio.timeout(self._limits.idle_seconds):
            await writer.drain()


async def _unless_closed(reader: asyncio.StreamReader, answering: Awaitable[None]) -> bool:
    """Await ``answering``, cancelled when the client closes or sends anything meanwhile; whether it was completed."""
    closed = asyncio.ensure_future(reader.read(1))
    answer = asyncio.ensure_future(answering)
    try:
        await asyncio.wait({closed, answer}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            return False
        answer.result()
        return not closed.done()
    finally:
        for each in (closed, answer):
            each.cancel()
        await asyncio.gather(closed, answer, return_exceptions=True)
