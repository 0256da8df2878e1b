"""Messages to a syslog receiver over UDP, TCP or TLS (RFC 5426, 6587, 5425)."""

import array
import asyncio
import fcntl
import socket
import ssl
import termios
from collections.abc import Sequence
from typing import Protocol

from secmon.outputs.output import Undelivered

CONNECT_SECONDS = 10.0
SEND_SECONDS = 30.0
"""In which the receiver must have taken all messages of one call."""
_LOOK_SECONDS = 0.002
"""Between two looks whether the receiver's system has acknowledged everything."""


class Transport(Protocol):
    """A way to one receiver. Used by one task."""

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send all. Raises Undelivered; ``done`` are those that need not be sent again."""

    async def close(self) -> None: ...


class Datagrams:
    """UDP: a receiver that is away is noticed only where its host says so."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._socket: socket.socket | None = None

    async def send(self, messages: Sequence[bytes]) -> None:
        loop = asyncio.get_running_loop()
        done = 0
        try:
            async with asyncio.timeout(SEND_SECONDS):
                connected = self._socket or await self._open()
                for message in messages:
                    await loop.sock_sendall(connected, message)
                    done += 1
        except (OSError, TimeoutError) as error:
            await self.close()
            raise Undelivered(_reason(error), max(0, done - 1)) from None  # the error is that of the datagram before

    async def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    async def _open(self) -> socket.socket:
        found = await asyncio.get_running_loop().getaddrinfo(self._host, self._port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        made = self._socket = socket.socket(family, kind, protocol)
        made.setblocking(False)
        made.connect(address)
        return made


class Stream:
    """TCP, or TLS with ``trust``. Sent is what the receiver's system has acknowledged."""

    def __init__(self, host: str, port: int, *, trust: ssl.SSLContext | None, counted: bool) -> None:
        """``counted``: each message has its length in front, as TLS demands; otherwise a line feed behind."""
        self._host, self._port = host, port
        self._trust = trust
        self._counted = counted
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, messages: Sequence[bytes]) -> None:
        data = b"".join(b"%d %b" % (len(one), one) if self._counted else one + b"\n" for one in messages)
        try:
            async with asyncio.timeout(SEND_SECONDS):
                reader, writer = await self._connected()
                writer.write(data)
                await writer.drain()
                await self._acknowledged(reader, writer)
        except (OSError, EOFError, TimeoutError) as error:  # ssl's errors are OSErrors
            await self.close()
            raise Undelivered(_reason(error)) from None

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()  # everything is sent; a receiver that hangs must not keep us
        self._streams = None

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is not None and (self._streams[0].at_eof() or self._streams[1].is_closing()):
            await self.close()
        if self._streams is None:
            async with asyncio.timeout(CONNECT_SECONDS):
                name = self._host if self._trust is not None else None
                self._streams = await asyncio.open_connection(
                    self._host, self._port, ssl=self._trust, server_hostname=name
                )
            self._streams[1].transport.set_write_buffer_limits(high=0)
        return self._streams

    async def _acknowledged(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Wait until nothing is under way. Raises EOFError when the receiver closes."""
        sock = writer.get_extra_info("socket")
        while True:
            if reader.at_eof() or writer.is_closing():
                raise EOFError("the receiver has closed the connection")
            if not _unacknowledged(sock):
                return
            await asyncio.sleep(_LOOK_SECONDS)


def _unacknowledged(sock: socket.socket) -> int:
    """Bytes that the other side's system has not acknowledged (SIOCOUTQ)."""
    found = array.array("i", [0])
    fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, found)
    return found[0]


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not error.args:
        return "it takes no messages in time"
    return str(error) or type(error).__name__
