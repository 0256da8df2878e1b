"""The agent link of a node: everything that listens, answers, sends and keeps, put together."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from secmon.agentlink.agent_table import Agent, AgentTable, read_changes
from secmon.agentlink.connection_pool import ConnectionPool
from secmon.agentlink.control import Control, Identity
from secmon.agentlink.counter_file import ReceiverCounters, SenderCounter
from secmon.agentlink.counters import LinkCounts, agents_shown
from secmon.agentlink.event_losses import EventLosses
from secmon.agentlink.file_push import FilePusher
from secmon.agentlink.local_socket import LocalSocket
from secmon.agentlink.message_counters import CounterVerification
from secmon.agentlink.missing_keys import MissingKeys
from secmon.agentlink.outgoing import Outgoing
from secmon.agentlink.ports import BACKLOG, bind_udp, listen_tcp
from secmon.agentlink.receiving import Hooks, MessageReceiver
from secmon.agentlink.requests import NOT_SENT, Requests
from secmon.agentlink.settings import LinkSettings
from secmon.agentlink.shared import Assigner, SharedFiles
from secmon.agentlink.state_queue import StateQueue
from secmon.agentlink.syslog import SyslogConnection, SyslogReceiver
from secmon.agentlink.udp import Address, DatagramPeer, read_datagrams
from secmon.agents.link.wire import AgentRequest, Answer, AppendEvents, Question, SendMessages, Statistics
from secmon.agents.registry.store import AgentStore
from secmon.agents.state_updates import Origin, reset
from secmon.common.accept.acceptor import Acceptor
from secmon.common.accept.limiter import AcceptLimits, ConnectionLimiter
from secmon.common.accept.listening import within_descriptors
from secmon.common.background import Background
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.logfile.warning_limiter import WarningLimiter
from secmon.common.paths import Paths
from secmon.config.remote import RemoteBlock
from secmon.journal.batch_writer import BatchWriter
from secmon.journal.journal import JournalWriter

log = logging.getLogger("secmon.agentlink")

KEYS_SECONDS = 0.25
"""Between two looks at the registry."""
SEGMENTS = 32
"""Of a journal at its limit: readers make room segment by segment."""
MAX_EVENT_BYTES = 64 << 20
"""Bytes of events that may wait for the journal."""
MAX_SYSLOG = 1024
"""Connections of syslog senders."""
_SCA = "#!-sca-dump:"
_MARK = "#!-"


class Ports:
    """The sockets of the ``remote`` sections, bound while the process may still do so."""

    def __init__(self, settings: LinkSettings) -> None:
        """Raises OSError."""
        self.tcp: list[tuple[RemoteBlock, socket.socket]] = []
        self.udp: list[tuple[RemoteBlock, socket.socket]] = []
        try:
            for block in settings.blocks:
                if "tcp" in block.protocols:
                    made = listen_tcp(block.host, block.port, keepalive=settings.tcp_keepalive)
                    self.tcp.append((block, made))
                if "udp" in block.protocols:
                    self.udp.append((block, bind_udp(block.host, block.port)))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for _, each in (*self.tcp, *self.udp):
            each.close()


class AgentLinkServer:
    """Serves the agents of a node. Build it, start it once, stop it once."""

    def __init__(
        self,
        settings: LinkSettings,
        ports: Ports,
        *,
        paths: Paths,
        clock: Clock,
        store: AgentStore,
        identity: Identity,
        node: str,
        assigner: Assigner,
        hooks: Hooks | None = None,
        tasks: Background | None = None,
    ) -> None:
        """``store`` is closed by the caller, after the stop; ``node`` is the name in agents' states; ``tasks``: those
        of the daemon.

        ``hooks.report``, ``hooks.missing_key`` None: those who listen at the local socket are told.
        Raises SecmonError 1005, OSError.
        """
        self.settings = settings
        self.counts = LinkCounts(int(clock.now().timestamp()))
        self.agents = AgentTable()
        self._ports = ports
        self._paths = paths
        self._clock = clock
        self._store = store
        self._origin = Origin(node, identity.host)
        self._warnings = WarningLimiter(log, clock)
        self.local = LocalSocket(paths.agent_link_socket, self._answer)
        hooks = hooks or Hooks()
        hooks.report = hooks.report or self.local.report
        self.keys = MissingKeys(clock, self.local.keys)
        hooks.missing_key = hooks.missing_key or self.keys.want
        counter = SenderCounter(paths.counters)
        self.journal = JournalWriter(  # last of what may fail: it holds a lock
            paths.events, clock, limit=settings.events_limit, segment=settings.events_limit // SEGMENTS
        )
        self.events = BatchWriter(
            self.journal, size=settings.queue_size, max_bytes=MAX_EVENT_BYTES, log=log, what="Events of agents"
        )
        self.events.on_room = self._room
        self.losses = EventLosses(log, self.counts)
        self.states = StateQueue(store, self._origin)
        self._outgoing = Outgoing(
            clock,
            self.counts,
            counter,
            silent_seconds=settings.silent_seconds,
            retry_seconds=settings.retry_seconds,
        )
        self.requests = Requests(
            self._outgoing,
            pool=settings.request_pool,
            turn_seconds=settings.request_turn_seconds,
            answer_seconds=settings.answer_seconds,
            repeat_seconds=settings.repeat_seconds,
            attempts=settings.attempts,
        )
        self.pusher = FilePusher(paths, clock, self._outgoing)
        self.shared = SharedFiles(paths, self.agents, self.states, self.pusher, assigner)
        self._verification = (
            CounterVerification(ReceiverCounters(paths.counters), flush_every=settings.counters_every)
            if settings.verify_counters
            else None
        )
        self._receiving = self._build_receiving(identity, hooks)
        self._accepting = Counters()
        self._limiter = ConnectionLimiter(
            "accept", _accept_limits(settings), log=log, clock=clock, counters=self._accepting,
            is_known=self.agents.by_address.__contains__,
        )  # fmt: skip
        self.pool = ConnectionPool(
            self._receiving,
            self.events,
            clock,
            self.counts,
            read_chunk=settings.read_chunk,
            send_limit=settings.send_limit,
            limiter=self._limiter,
            unauthenticated_seconds=settings.unauthenticated_seconds,
            hold_seconds=settings.hold_seconds,
        )
        self._refreshing = asyncio.Lock()
        self._syslog: set[SyslogConnection] = set()
        self._acceptors: list[Acceptor] = []
        self._servers: list[asyncio.Server] = []
        self._tasks = tasks or Background()

    def _build_receiving(self, identity: Identity, hooks: Hooks) -> MessageReceiver:
        block = self.settings.secure
        control = Control(
            self._clock,
            self.counts,
            self._outgoing,
            self.states,
            self.events,
            self._warnings,
            self.shared,
            self.requests.answered,
            identity,
            allow_higher=block is not None and block.allow_higher_versions,
        )
        return MessageReceiver(
            self.agents,
            self._clock,
            self.counts,
            self.events,
            control,
            self._warnings,
            hooks,
            self._verification,
            self.losses,
            overtake_seconds=block.overtake_seconds if block else 0,
        )

    # Starting and stopping

    async def start(self) -> None:
        """Serve: returns when agents can connect. Raises OSError, SQLAlchemyError."""
        await asyncio.to_thread(self._reset)
        await self.refresh()
        tasks = self._tasks
        tasks.vital("states", self.states.run)
        tasks.vital("events", self.events.run)
        tasks.keep("keys", self._follow_registry)
        tasks.keep("connections", self.pool.sweep)
        tasks.keep("losses", self.losses.report_for_ever)
        tasks.keep("shared files", self.shared.watch)
        tasks.keep("first groups", self.shared.assign_for_ever)
        for number in range(self.settings.senders):
            tasks.keep(f"sender {number + 1}", self.pusher.run)
        if self.settings.counts_sweep_seconds:
            tasks.keep("counts", self._sweep_counts)
        await self.local.open()
        await self._listen()

    async def stop(self) -> None:
        """Take nothing new, write what was taken, end all connections. Also after a start that failed."""
        loop = asyncio.get_running_loop()
        for _, endpoint in self._ports.udp:
            loop.remove_reader(endpoint)
        for acceptor in self._acceptors:
            acceptor.close()
        for server in self._servers:
            server.close()
        await self.local.close()
        self.pool.close()
        for syslog in list(self._syslog):
            syslog.close()
        await self._tasks.stop()
        self.states.stop()
        self.events.stop()
        await self._tasks.ended("states")
        await self._tasks.ended("events")
        if self._verification is not None:
            await self._verification.flush()
        self._outgoing.close()
        self._warnings.flush()
        self.losses.report()
        self.events.close()
        self._ports.close()

    async def refresh(self) -> None:
        """Take over what is new in the registry."""
        async with self._refreshing:
            await self._refresh()

    async def _refresh(self) -> None:
        changes = await asyncio.to_thread(read_changes, self._store, self.agents.position)
        if changes is None:
            return
        # The groups' files are known before an agent of the group is judged.
        await self.shared.look({row.group for row in changes.rows if row.group})
        applied = self.agents.apply(changes)
        self.counts.reloads += 1
        self.pool.close_those_of(applied.stale)
        if self._verification is not None:
            for agent in applied.stale:
                await self._verification.forget(agent)
        self.shared.judge_all(applied.regrouped)

    def _reset(self) -> None:
        with self._store.write() as connection:
            reset(connection, self._origin.node, now=int(self._clock.now().timestamp()))

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        for block, listener in self._ports.tcp:
            if block.secure:
                self._acceptors.append(Acceptor([listener], self._limiter, self.pool.serve, log))
                self._acceptors[-1].start()
            else:
                factory = self._syslog_factory(block)
                self._servers.append(await loop.create_server(factory, sock=listener, backlog=BACKLOG))
        for block, endpoint in self._ports.udp:
            take = self._datagram_of(endpoint) if block.secure else self._syslog_receiver(block).datagram
            loop.add_reader(endpoint, read_datagrams, endpoint, take)

    def _datagram_of(self, endpoint: socket.socket) -> Callable[[str, Address, bytes], None]:
        def take(source: str, address: Address, data: bytes) -> None:
            if self.events.full:
                self.counts.discarded += 1
            elif data:
                self._receiving.receive(DatagramPeer(endpoint, address, source), data)
            else:
                self.counts.unknown += 1

        return take

    def _syslog_receiver(self, block: RemoteBlock) -> SyslogReceiver:
        return SyslogReceiver(block, self.counts, self.events, self._warnings)

    def _syslog_factory(self, block: RemoteBlock) -> Callable[[], SyslogConnection]:
        receiver = self._syslog_receiver(block)
        return lambda: SyslogConnection(receiver, self._syslog_opened, self._syslog.discard)

    def _syslog_opened(self, connection: SyslogConnection) -> bool:
        if len(self._syslog) >= MAX_SYSLOG:
            self.counts.evicted += 1
            return False
        self._syslog.add(connection)
        return True

    def _room(self) -> None:
        self.pool.wake_all()
        for syslog in list(self._syslog):
            syslog.wake()

    # Work that goes on

    async def _follow_registry(self) -> None:
        while True:
            await asyncio.sleep(KEYS_SECONDS)
            try:
                await self.refresh()
            except SQLAlchemyError as error:
                log.error("The registry of agents cannot be read: %s", error)
                await asyncio.sleep(KEYS_SECONDS * 8)

    async def _sweep_counts(self) -> None:
        """Forget the counters of agents that are no longer active."""
        while True:
            await asyncio.sleep(self.settings.counts_sweep_seconds)
            oldest = self._clock.now().timestamp() - self.settings.silent_seconds
            for agent in self.agents.by_number.values():
                if agent.counts is not None and agent.last_keepalive < oldest and self._silent(agent):
                    agent.counts = None

    def _silent(self, agent: Agent) -> bool:
        return agent.last_keepalive == 0 or self._outgoing.route_to(agent) is None

    # Questions of other daemons

    async def request(self, agent: int, target: str, payload: bytes, *, timeout: float | None = None) -> bytes:
        """As ``AgentLink.request``."""
        found = self.agents.by_number.get(agent)
        if found is None:
            return NOT_SENT
        return await self.requests.ask(found, target, payload, timeout=timeout)

    async def send(self, messages: Sequence[tuple[int, str]]) -> Sequence[int]:
        """As ``AgentLink.send``; texts may come with or without the marker of control messages."""
        sent = await _some_at_a_time([self._tell(agent, text) for agent, text in messages])
        return [agent for (agent, _), done in zip(messages, sent, strict=True) if not done]

    async def statistics(self, agents: Sequence[int] | None = None) -> Mapping[str, Any]:
        """As ``AgentLink.statistics``."""
        if agents is None:
            return self._statistics()
        now = int(self._clock.now().timestamp())
        found = (self.agents.by_number.get(number) for number in dict.fromkeys(agents))
        return agents_shown([(one.number, one.counts) for one in found if one and one.counts], now=now)

    def counters(self) -> Mapping[str, Any]:
        """The statistics, and what operators of the link want to know besides."""
        counts, journal = self.counts, self.journal
        return {
            **self._statistics(),
            "link": {
                **self._accepting.snapshot(),
                "agents": len(self.agents),
                "counters_back": counts.counters_back,
                "evicted": counts.evicted,
                "held": self.pool.held,
                "holds": counts.holds,
                "dropped": counts.dropped,
                "journal": {"bytes": journal.size, "events": journal.next, "lost": journal.lost, "full": journal.full},
                "key_requests": {"handed": self.keys.handed, "dropped": self.keys.dropped},
                "pushes_waiting": self.pusher.waiting,
                "requests": self.requests.under_way,
                "syslog": counts.syslog,
            },
        }

    def _statistics(self) -> dict[str, Any]:
        return self.counts.shown(
            now=int(self._clock.now().timestamp()),
            sessions=len(self.pool.connections) + len(self._syslog),
            queue_size=self.settings.queue_size,
            queue_usage=self.events.usage,
        )

    async def record(self, lines: Sequence[bytes]) -> int:
        """Take events of other daemons into the journal; how many there was room for."""
        taken = 0
        for line in lines:
            if self.events.full:
                break
            self.events.add(line)
            taken += 1
        return taken

    async def _tell(self, number: int, text: str) -> bool:
        agent = self.agents.by_number.get(number)
        if agent is None:
            return False
        marked = text if text.startswith(_MARK) else _MARK + text
        try:
            return await self._outgoing.deliver(agent, marked.encode(), "sca" if marked.startswith(_SCA) else "ar")
        except ValueError:  # longer than a message can be
            return False

    async def _answer(self, question: Question) -> Answer:
        match question:
            case AgentRequest(agent, target, payload, timeout):
                return Answer(answer=await self.request(agent, target, payload, timeout=timeout))
            case SendMessages(messages):
                return Answer(unsent=list(await self.send(messages)))
            case Statistics(agents):
                return Answer(statistics=await self.statistics(agents))
            case AppendEvents(lines):
                return Answer(recorded=await self.record(lines))
        return Answer()


def _accept_limits(settings: LinkSettings) -> AcceptLimits:
    """Connections that have not said who they are may all be of one address: thousands of agents may share it."""
    total = within_descriptors(AcceptLimits(total=settings.files, reserved=0, per_address=settings.files)).total
    unauthenticated = min(settings.unauthenticated_limit, max(1, total // 4))
    return AcceptLimits(total=total, reserved=total - unauthenticated, per_address=unauthenticated)


async def _some_at_a_time(work: Iterable[Awaitable[bool]], *, at_once: int = 256) -> list[bool]:
    """The results in order; one that has to wait keeps few others waiting."""
    results: list[bool] = []
    batch: list[Awaitable[bool]] = []
    for each in work:
        batch.append(each)
        if len(batch) == at_once:
            results += await asyncio.gather(*batch)
            batch.clear()
    return results + await asyncio.gather(*batch)
