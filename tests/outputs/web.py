"""An HTTP server whose answers tests choose: it may be slow, fail, hang or close."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from tests.waiting import until


class Request(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


Answer = int | str | tuple[int, bytes]
"""A status, a status with a body, or ``hang``, ``close``, ``garbage`` or ``endless``."""


class WebServer:
    """Notes requests. ``answer`` decides what each of them gets."""

    def __init__(self, trust: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self.answer: Callable[[Request], Answer] = lambda request: 200
        self.url = ""
        self._trust = trust
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._trust)
        scheme = "https" if self._trust else "http"
        self.url = f"{scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        assert self._server is not None, "opened first"
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    async def received(self, count: int) -> None:
        """Wait for so many requests."""
        await until(lambda: len(self.requests) >= count)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().split("\r\n")[:-2]
                headers = {name.lower(): value for name, value in (one.split(": ", 1) for one in lines)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                method, path, _ = first.split(" ")
                request = Request(method, path, headers, body)
                self.requests.append(request)
                if not await self._answer(writer, self.answer(request)):
                    return
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has closed
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _answer(self, writer: asyncio.StreamWriter, answer: Answer) -> bool:
        match answer:
            case "hang":
                await asyncio.Event().wait()
            case "close":
                return False
            case "garbage":
                writer.write(b"\0\1\2 nothing like HTTP\r\n\r\n")
                await writer.drain()
                return False
            case "endless":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
                while True:
                    writer.write(b"x" * 65536)
                    await writer.drain()
            case int() as status:
                return await self._answer(writer, (status, b"{}"))
            case (int() as status, bytes() as body):
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))
                await writer.drain()
        return True


@asynccontextmanager
async def web_server(trust: ssl.SSLContext | None = None) -> AsyncIterator[WebServer]:
    """A server on a port of its own."""
    server = WebServer(trust)
    await server.open()
    try:
        yield server
    finally:
        await server.close()
