"""Control sockets: one JSON object a line over a unix stream, answered in order.

Request ``{"command": "status", ...}``; answer ``{"error": 0, "data": ...}`` or ``{"error": code, "message": text}``.
A client that sends garbage, too long a line or nothing at all costs at most its own connection.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from secmon.common.errors import SecmonError
from secmon.common.unix_server import UnixServer
from secmon.daemons.privileges import Account, share

Handler = Callable[[str, Mapping[str, Any]], Awaitable[object]]
"""Gets the command and the whole request; returns what stands under ``data``; raises :class:`SecmonError`."""

MAX_LINE = 64 * 1024
"""Bytes of one request."""
MAX_CLIENTS = 64
MAX_PATH = 107
"""Bytes of a unix socket's path, set by the kernel."""

log = logging.getLogger("secmon.control")


class BadRequest(Exception):
    """A request that is no command."""


class ControlServer:
    """Answers commands at ``path`` while open. ``idle_seconds`` bounds each wait for a client, both ways."""

    def __init__(
        self, path: Path, handler: Handler, *, account: Account | None = None, idle_seconds: float = 10.0
    ) -> None:
        self._handler = handler
        self._account = account
        self._idle = idle_seconds
        self._server = UnixServer(path, self._serve, log, share=self._share, line=MAX_LINE)
        self._clients: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen. The socket appears under its name with mode 0660 at once; a stale one is replaced. Raises OSError."""
        await self._server.open()

    async def tend(self) -> None:
        """Listen anew when the socket was removed from its folder. Raises OSError."""
        await self._server.tend()

    async def close(self) -> None:
        """Remove the socket and end the connections; answers under way are cut off."""
        self._server.close()
        tasks = [task for task in self._clients if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _share(self, path: Path) -> None:
        share(path, 0o660, self._account)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            if len(self._clients) > MAX_CLIENTS:
                await self._send(writer, {"error": 1014, "message": "Too many connections to this control socket"})
            else:
                await self._converse(reader, writer)
            writer.close()
            async with asyncio.timeout(self._idle):
                await writer.wait_closed()
        except (TimeoutError, ConnectionError, asyncio.CancelledError):
            # A client that is slow or gone, or the server closes: only this connection ends. Nobody awaits this task
            # for its result, and what the client has not taken by now it does not get.
            writer.transport.abort()
        finally:
            self._clients.discard(task)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                async with asyncio.timeout(self._idle):
                    line = await reader.readline()
            except ValueError:
                # What follows a line that is too long cannot be told from its rest.
                await self._send(writer, {"error": 1014, "message": f"A request is longer than {MAX_LINE} bytes"})
                return
            if not line.endswith(b"\n"):
                return
            await self._send(writer, await self._answer(line))

    async def _answer(self, line: bytes) -> Mapping[str, Any]:
        try:
            request = _parse(line)
            return {"error": 0, "data": await self._handler(request["command"], request)}
        except BadRequest as error:
            return {"error": 1014, "message": str(error)}
        except SecmonError as error:
            return {"error": error.code, "message": error.message}
        except Exception:  # a fault in one command must not take the socket away; logged with its trace
            log.exception("A control command failed: %s", line[:200].decode("utf-8", "backslashreplace").strip())
            return {"error": 1000, "message": "Unexpected internal error; see the log"}

    async def _send(self, writer: asyncio.StreamWriter, reply: Mapping[str, Any]) -> None:
        writer.write(msgspec.json.encode(reply) + b"\n")
        async with asyncio.timeout(self._idle):
            await writer.drain()


def _parse(line: bytes) -> dict[str, Any]:
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        request = msgspec.json.decode(line)
        if isinstance(request, dict) and isinstance(request.get("command"), str):
            return request
    raise BadRequest('Send one JSON object a line, such as {"command": "status"}')
