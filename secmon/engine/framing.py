"""Local sockets with frames: a 32-bit little-endian length, then JSON, each way; one request after the other."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from secmon.common.unix_server import UnixServer

log = logging.getLogger("secmon.analysisd")

MAX_CLIENTS = 4096
IDLE_SECONDS = 30.0
"""Time a client has to ask, and to take its answer."""

Answer = Callable[[bytes], Awaitable[bytes]]


class FramedServer:
    """Answers while open. Who may open the socket is trusted: its mode is 0660."""

    def __init__(self, path: Path, answer: Answer, *, most: int, too_long: bytes) -> None:
        """``most``: bytes of a request; ``too_long``: the answer to one that is longer, which ends the connection."""
        self._path = path
        self._answer = answer
        self._most = most
        self._too_long = too_long
        self._server = UnixServer(path, self._serve, log)
        self._clients: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen; a stale socket is replaced. Raises OSError."""
        await self._server.open()

    async def tend(self) -> None:
        """Listen anew when the socket was removed from its folder. Raises OSError."""
        await self._server.tend()

    async def close(self) -> None:
        """Take nothing new, and cut off what is under way."""
        self._server.close()
        for task in list(self._clients):
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._clients) >= MAX_CLIENTS:
            writer.close()
            return
        self._clients.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (OSError, EOFError, TimeoutError) as error:
            log.debug("A client of %s is gone: %r", self._path, error)
        except asyncio.CancelledError:
            return  # the daemon stops
        finally:
            self._clients.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; whether another may follow."""
        async with asyncio.timeout(IDLE_SECONDS):
            size = int.from_bytes(await reader.readexactly(4), "little")
            request = await reader.readexactly(size) if size <= self._most else None
        answer = self._too_long if request is None else await self._answer(request)
        writer.write(len(answer).to_bytes(4, "little") + answer)
        async with asyncio.timeout(IDLE_SECONDS):
            await writer.drain()
        return request is not None
