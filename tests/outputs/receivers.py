"""Receivers of syslog messages on real sockets."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.waiting import until


class SyslogServer:
    """Collects messages: TCP and TLS with either framing, UDP."""

    def __init__(self, trust: ssl.SSLContext | None = None) -> None:
        self.messages: list[bytes] = []
        self.port = 0
        self._trust = trust
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._trust)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """As when the receiver's host restarts; :meth:`open` opens the same port again."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        if self._server is not None:
            await self._server.wait_closed()

    async def received(self, count: int) -> None:
        """Wait for so many messages."""
        await until(lambda: len(self.messages) >= count)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while first := await reader.readexactly(1):
                if first.isdigit():
                    length = int(first + (await reader.readuntil(b" "))[:-1])
                    self.messages.append(await reader.readexactly(length))
                else:
                    self.messages.append(first + (await reader.readuntil(b"\n"))[:-1])
        except (OSError, asyncio.IncompleteReadError):
            pass  # the sender has closed
        finally:
            self._writers.discard(writer)
            writer.transport.abort()


class DatagramServer(asyncio.DatagramProtocol):
    """Collects datagrams."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    def datagram_received(self, data: bytes, addr: object) -> None:
        self.messages.append(data)


@asynccontextmanager
async def syslog_server(trust: ssl.SSLContext | None = None) -> AsyncIterator[SyslogServer]:
    """A receiver of streams on a port of its own."""
    server = SyslogServer(trust)
    await server.open()
    try:
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def datagram_server(port: int = 0) -> AsyncIterator[tuple[DatagramServer, int]]:
    """A receiver of datagrams, and its port."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", port))
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(DatagramServer, sock=sock)
    try:
        yield server, sock.getsockname()[1]
    finally:
        transport.close()
