"""The enrolment service: one TLS connection, one request, one reply (agent-link.md 1.3, 15.1)."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable

from msgspec import Struct

from secmon.agentlink.enrolment.tls import names_match
from secmon.agents.names import normal_address
from secmon.agents.registry.enrolment import END_OF_REFUSAL, MAX_REQUEST, Refusal, Request, Rules, accepted, parse
from secmon.agents.registry.entries import Entry
from secmon.common.accept.acceptor import Accepted, Acceptor
from secmon.common.accept.limiter import AcceptLimits, ConnectionLimiter, Slot
from secmon.common.accept.listening import BACKLOG, within_descriptors
from secmon.common.background import Background
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.logfile.warning_limiter import WarningLimiter

log = logging.getLogger("secmon.authd")

AddAgent = Callable[[Request], Awaitable[Entry]]
"""Adds the agent of a request. Raises Refusal."""


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds of a connection, in seconds, and how many there may be at once."""

    handshake: float = 5.0
    read: float = 1.0
    request: float = 10.0
    answer: float = 60.0
    close: float = 1.0
    accept: AcceptLimits = AcceptLimits(total=1000, reserved=100, per_address=900, grace_seconds=1.0)


class EnrolmentService:
    """Listens from ``start`` to ``stop``. ``rules`` and ``context`` may be replaced at any time; new connections use
    them."""

    def __init__(
        self,
        *,
        listening: socket.socket,
        context: ssl.SSLContext,
        rules: Rules,
        add_agent: AddAgent,
        counters: Counters,
        clock: Clock,
        check_host: bool = False,
        limits: Limits | None = None,
        tasks: Background | None = None,
    ) -> None:
        """``listening`` is bound; ``check_host``: a client's certificate must name its address; ``tasks``: those of the
        daemon."""
        self.context, self.rules = context, rules
        self._listening, self._add_agent, self._counters = listening, add_agent, counters
        self._check_host = check_host
        self._warnings = WarningLimiter(log, clock)
        self._limits = limits or Limits()
        limiter = ConnectionLimiter(
            "authd", within_descriptors(self._limits.accept), log=log, clock=clock, counters=counters
        )
        self._acceptor = Acceptor([listening], limiter, self._serve, log)
        self._tasks = tasks or Background()

    def start(self) -> None:
        self._listening.listen(BACKLOG)
        self._acceptor.start()
        self._tasks.keep("warnings", self._warnings.run)

    async def stop(self) -> None:
        """Accept no more connections, and finish the open ones: their time limits are short."""
        self._acceptor.close()
        self._listening.close()
        await self._acceptor.finish()
        await self._tasks.stop("warnings")
        self._warnings.flush()

    async def _serve(self, connection: socket.socket, place: Accepted) -> None:
        try:
            await self._converse(connection, place)
        except Exception:
            self._counters.add("authd.unexpected_errors")
            raise

    async def _converse(self, connection: socket.socket, place: Accepted) -> None:
        source = normal_address(place.address.partition("%")[0])
        self._counters.add("authd.connections")
        try:
            reader, writer = await self._handshake(connection)
        except (OSError, TimeoutError) as error:
            self._counters.add("authd.handshake_failures")
            log.info("%s: no TLS connection: %s", source, error or type(error).__name__)
            return
        try:
            await self._answer(reader, writer, source, place.slot)
            writer.close()
            await writer.wait_closed()
        except (OSError, TimeoutError) as error:
            self._counters.add("authd.broken_connections")
            log.debug("%s: the connection broke: %s", source, error or type(error).__name__)
        finally:
            writer.transport.abort()

    async def _handshake(self, connection: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            connection,
            ssl=self.context,
            ssl_handshake_timeout=self._limits.handshake,
            ssl_shutdown_timeout=self._limits.close,
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, source: str, slot: Slot
    ) -> None:
        if self._check_host and not names_match(writer.get_extra_info("peercert") or {}, source):
            self._counters.add("authd.wrong_certificates")
            self._warnings.warn("certificates", "%s: its certificate names another host", source)
            return
        data = await self._read(reader)
        if not data:
            self._counters.add("authd.silent_connections")
            return
        slot.busy = True
        async with asyncio.timeout(self._limits.answer):
            try:
                entry = await self._add_agent(parse(data, source, self.rules))
            except Refusal as refused:
                self._counters.add("authd.refused")
                self._warnings.warn("refusals", "%s: enrolment refused: %r", source, str(refused)[:300])
                await self._refuse(writer, refused)
                return
            self._counters.add("authd.accepted")
            self._acceptor.limiter.authenticated(slot)
            log.info("%s: enrolled as agent %s (%s)", source, entry.padded, entry.name)
            writer.write(accepted(entry))
            await writer.drain()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        """The bytes of the client up to a line feed, the end, a pause, or the largest size."""
        data = b""
        try:
            async with asyncio.timeout(self._limits.request):
                while len(data) < MAX_REQUEST:
                    more = await asyncio.wait_for(reader.read(MAX_REQUEST - len(data)), self._limits.read)
                    data += more
                    if not more or b"\n" in more:
                        break
        except TimeoutError:
            pass  # some clients send no line feed: the bytes so far are their request
        return data

    async def _refuse(self, writer: asyncio.StreamWriter, refused: Refusal) -> None:
        """Send the reason and the closing line, in a TLS record each: some agents read only one."""
        for line in (refused.line, END_OF_REFUSAL):
            writer.write(line.encode("utf-8", "surrogateescape"))
            await writer.drain()
            await asyncio.sleep(0)
