"""Connections of agents: payloads in and out, over TCP or UDP (agent-link.md 4.2)."""

import asyncio
import socket
from typing import Protocol, cast

from secmon.agents.wire.frames import Unframer, frame
from secmon.simulator.options import Options, Server


class Owner(Protocol):
    """Receives the events of a link."""

    def link_made(self, link: "Link") -> None:
        """The transport is open."""

    def link_received(self, link: "Link", payload: bytes) -> None:
        """A payload was received."""

    def link_lost(self, link: "Link") -> None:
        """The transport is closed, by either side; called once, and only after ``link_made``."""


class Link(Protocol):
    """An open transport."""

    full: bool
    """Whether the transport asks to write no more for now."""

    def send(self, payload: bytes) -> int:
        """Send one payload. Returns its bytes on the wire. Does nothing after ``close``."""

    def send_raw(self, data: bytes) -> None:
        """Send bytes without a frame, for agents that misbehave."""

    def pause(self) -> None:
        """Stop reading."""

    def close(self) -> None:
        """Send the buffered bytes, then close."""

    def abort(self) -> None:
        """Close at once."""

    @property
    def local_address(self) -> str: ...


class TcpLink(asyncio.Protocol):
    """Frames on a stream."""

    def __init__(self, owner: Owner, send_buffer: int = 0) -> None:
        self._owner, self._buffer = owner, send_buffer
        self._unframer = Unframer()
        self._transport: asyncio.Transport | None = None
        self.full = False

    def send(self, payload: bytes) -> int:
        data = frame(payload)
        self.send_raw(data)
        return len(data)

    def send_raw(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def local_address(self) -> str:
        return _local(self._transport)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._buffer:
            stream = transport.get_extra_info("socket")
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._buffer // 2)
            self._transport.set_write_buffer_limits(self._buffer // 2)
        self._owner.link_made(self)

    def data_received(self, data: bytes) -> None:
        for payload in self._unframer.feed(data):
            self._owner.link_received(self, payload)
        if self._unframer.broken:
            self.abort()

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._owner.link_lost(self)


class UdpLink(asyncio.DatagramProtocol):
    """Each datagram is one payload."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._transport: asyncio.DatagramTransport | None = None
        self.full = False

    def send(self, payload: bytes) -> int:
        self.send_raw(payload)
        return len(payload)

    def send_raw(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(data)

    def pause(self) -> None:
        """An unread datagram is dropped by the kernel; here it is read and passed to the owner."""

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    @property
    def local_address(self) -> str:
        return _local(self._transport)

    # asyncio.DatagramProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        self._owner.link_made(self)

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._owner.link_received(self, data)

    def error_received(self, exc: Exception) -> None:
        """The port has no listener: to an agent this is the same as no answer."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._owner.link_lost(self)


async def open_link(server: Server, owner: Owner, options: Options) -> None:
    """Open a link for ``owner``. Raises OSError, TimeoutError after the time that the options give it."""
    loop = asyncio.get_running_loop()
    local = (options.source, 0) if options.source else None
    buffer = options.send_buffer
    async with asyncio.timeout(options.timing.connect_wait):
        if server.transport == "tcp":
            await loop.create_connection(lambda: TcpLink(owner, buffer), server.host, server.port, local_addr=local)
        else:
            remote = (server.host, server.port)
            await loop.create_datagram_endpoint(lambda: UdpLink(owner), remote_addr=remote, local_addr=local)


def _local(transport: asyncio.BaseTransport | None) -> str:
    name = transport.get_extra_info("sockname") if transport is not None else None
    return str(name[0]) if name else ""
