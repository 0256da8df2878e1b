"""Plain syslog: lines over TCP, datagrams over UDP, from permitted addresses (agent-link.md 4.8)."""

import asyncio
import re
from collections.abc import Callable
from typing import cast

from secmon.agentlink.counters import LinkCounts
from secmon.agents.wire.address import source_text
from secmon.agents.wire.location import escape
from secmon.common.logfile.warning_limiter import WarningLimiter
from secmon.config.remote import RemoteBlock, permitted
from secmon.journal.batch_writer import BatchWriter

MAX_LINE = 65000
_PRIORITY = re.compile(rb"<[^<>\n]{0,16}>")


class SyslogReceiver:
    """Turns lines of permitted senders into events."""

    def __init__(self, block: RemoteBlock, counts: LinkCounts, events: BatchWriter, warnings: WarningLimiter) -> None:
        self._block = block
        self._counts = counts
        self._events = events
        self._warnings = warnings

    @property
    def full(self) -> bool:
        return self._events.full

    def admits(self, source: str) -> bool:
        """Whether ``source`` may send; a refusal is logged."""
        fine = permitted(source, self._block.allowed, self._block.denied)
        if not fine:
            self._counts.unknown += 1
            self._warnings.warn("Syslog from addresses not allowed", "%s: not allowed to send syslog", source)
        return fine

    def line(self, source: str, line: bytes) -> None:
        """One line, without its end."""
        priority = _PRIORITY.match(line)
        text = line[priority.end() :] if priority else line
        if text:
            self._events.add(b"2:%b:%b" % (escape(source).encode(), text[:MAX_LINE].replace(b"\0", b" ")))
            self._counts.syslog += 1

    def datagram(self, source: str, _address: object, data: bytes) -> None:
        if self._events.full:
            self._counts.discarded += 1
        elif self.admits(source):
            self.line(source, data.removesuffix(b"\n"))


class SyslogConnection(asyncio.Protocol):
    """One sender over TCP."""

    def __init__(
        self,
        receiver: SyslogReceiver,
        opened: Callable[["SyslogConnection"], bool],
        gone: Callable[["SyslogConnection"], None],
    ) -> None:
        """``opened`` says whether there is a place for it."""
        self._receiver = receiver
        self._opened = opened
        self._gone = gone
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
        if not self._receiver.admits(self._source) or not self._opened(self):
            self.close()

    def connection_lost(self, _error: Exception | None) -> None:
        if self._rest and self._transport is not None:
            self._receiver.line(self._source, self._rest)
        self._transport = None
        self._gone(self)

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

    def wake(self) -> None:
        """Read again."""
        if self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
