"""Plain syslog: lines over TCP, datagrams over UDP, from permitted addresses (agent-link.md 4.8)."""

import asyncio
import re
import socket
from typing import cast

from secmon.agentlink.counters import LinkCounts
from secmon.agentlink.ports import BACKLOG
from secmon.agents.wire.address import source_text
from secmon.agents.wire.location import escape
from secmon.common.logfile.warning_limiter import WarningLimiter
from secmon.config.remote import RemoteBlock, permitted
from secmon.journal.batch_writer import BatchWriter

MAX_CONNECTIONS = 1024
MAX_LINE = 65000
_PRIORITY = re.compile(rb"<[^<>\n]{0,16}>")


class SyslogReceiver:
    """Turns lines of the permitted senders of a port into events."""

    def __init__(self, block: RemoteBlock, counts: LinkCounts, events: BatchWriter, warnings: WarningLimiter) -> None:
        self._block = block
        self._counts = counts
        self._events = events
        self._warnings = warnings

    @property
    def full(self) -> bool:
        return self._events.full

    def permits(self, source: str) -> bool:
        """Whether ``source`` may send; a refusal is logged."""
        fine = permitted(source, self._block.allowed, self._block.denied)
        if not fine:
            self._counts.unknown += 1
            self._warnings.warn("Syslog from addresses not allowed", "%s: not allowed to send syslog", source)
        return fine

    def line(self, source: str, line: bytes) -> None:
        """Add one line as an event; ``line`` has no line end."""
        priority = _PRIORITY.match(line)
        text = line[priority.end() :] if priority else line
        if text:
            self._events.add(b"2:%b:%b" % (escape(source).encode(), text[:MAX_LINE].replace(b"\0", b" ")))
            self._counts.syslog += 1

    def datagram(self, source: str, _address: object, data: bytes) -> None:
        if self._events.full:
            self._counts.discarded += 1
        elif self.permits(source):
            self.line(source, data.removesuffix(b"\n"))


class SyslogConnection(asyncio.Protocol):
    """One sender over TCP."""

    def __init__(self, receiver: SyslogReceiver, server: "SyslogServer") -> None:
        self._receiver = receiver
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._source = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        if not peer:  # gone already
            transport.close()
            return
        self._transport = cast(asyncio.Transport, transport)
        self._source = source_text(peer[0])
        if not self._receiver.permits(self._source) or not self._server.opened(self):
            self.close()

    def connection_lost(self, _error: Exception | None) -> None:
        if self._rest and self._transport is not None:
            self._receiver.line(self._source, self._rest)
        self._transport = None
        self._server.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        while len(rest) > MAX_LINE:
            lines.append(rest[:MAX_LINE])
            rest = rest[MAX_LINE:]
        self._rest = rest
        for line in lines:
            self._receiver.line(self._source, line.removesuffix(b"\r"))
        if self._receiver.full and self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class SyslogServer:
    """The connections of syslog senders, of all ports."""

    def __init__(self, counts: LinkCounts, events: BatchWriter, warnings: WarningLimiter) -> None:
        self.connections: set[SyslogConnection] = set()
        self._counts = counts
        self._events = events
        self._warnings = warnings
        self._servers: list[asyncio.Server] = []

    def receiver(self, block: RemoteBlock) -> SyslogReceiver:
        return SyslogReceiver(block, self._counts, self._events, self._warnings)

    async def listen(self, block: RemoteBlock, listener: socket.socket) -> None:
        """Accept the senders of a port. Raises OSError."""
        loop, receiver = asyncio.get_running_loop(), self.receiver(block)
        self._servers.append(
            await loop.create_server(lambda: SyslogConnection(receiver, self), sock=listener, backlog=BACKLOG)
        )

    def opened(self, connection: SyslogConnection) -> bool:
        """Count a new connection; False when there are too many."""
        if len(self.connections) >= MAX_CONNECTIONS:
            self._counts.evicted += 1
            return False
        self.connections.add(connection)
        return True

    def room(self) -> None:
        """Events were written: read again."""
        for connection in list(self.connections):
            connection.resume()

    def stop_listening(self) -> None:
        for server in self._servers:
            server.close()

    def close(self) -> None:
        """End all connections."""
        for connection in list(self.connections):
            connection.close()
