"""The agent link of a node: its parts put together, started and stopped."""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any

from secmon.agentlink.agent_table import Agent, AgentTable
from secmon.agentlink.connection_pool import ConnectionPool
from secmon.agentlink.control import Control, Identity
from secmon.agentlink.counter_file import ReceiverCounters, SenderCounter
from secmon.agentlink.counters import LinkCounts
from secmon.agentlink.event_losses import EventLosses
from secmon.agentlink.file_push import FilePusher
from secmon.agentlink.link_service import LinkService
from secmon.agentlink.local_socket import LocalSocket
from secmon.agentlink.message_counters import CounterVerification
from secmon.agentlink.missing_keys import MissingKeys
from secmon.agentlink.outgoing import Outgoing
from secmon.agentlink.ports import Ports
from secmon.agentlink.receiving import Hooks, MessageReceiver
from secmon.agentlink.registry_follower import RegistryFollower
from secmon.agentlink.requests import Requests
from secmon.agentlink.settings import LinkSettings
from secmon.agentlink.shared import Assigner, SharedFiles
from secmon.agentlink.state_queue import StateQueue
from secmon.agentlink.syslog import SyslogServer
from secmon.agentlink.udp import Address, DatagramPeer, read_datagrams
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
from secmon.journal.batch_writer import BatchWriter
from secmon.journal.journal import JournalWriter

log = logging.getLogger("secmon.agentlink")

SEGMENTS = 32
"""Of a journal at its limit: readers make room segment by segment."""
MAX_EVENT_BYTES = 64 << 20
"""Bytes of events that may wait for the journal."""


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

        ``hooks.report``, ``hooks.missing_key`` None: the subscribers at the local socket get them.
        Raises SecmonError 1005, OSError.
        """
        self.settings = settings
        self.counts = LinkCounts(int(clock.now().timestamp()))
        self.agents = AgentTable()
        self._ports, self._clock, self._store = ports, clock, store
        self._origin = Origin(node, identity.host)
        self._tasks = tasks or Background()
        self._warnings = WarningLimiter(log, clock)
        self.states = StateQueue(store, self._origin)
        self._outgoing = Outgoing(clock, self.counts, SenderCounter(paths.counters), settings)
        self.requests = Requests(self._outgoing, settings)
        self.pusher = FilePusher(paths, clock, self._outgoing)
        self.shared = SharedFiles(paths, self.agents, self.states, self.pusher, assigner)
        self._verification = _verification(settings, paths)
        self.events = _open_events(settings, paths, clock)  # last of what may fail: the journal holds a lock
        self.journal = self.events.journal
        self.events.on_room = self._room
        self.service = LinkService(
            self.agents, self._outgoing, self.requests, self.events, clock, totals=self._statistics
        )
        self.local = LocalSocket(paths.agent_link_socket, self.service.answer)
        self.missing_keys = MissingKeys(clock, self.local.keys)
        self._build_listening(identity, hooks or Hooks())

    def _build_listening(self, identity: Identity, hooks: Hooks) -> None:
        """Build the parts that accept connections and datagrams, and handle their messages."""
        hooks.report = hooks.report or self.local.report
        hooks.missing_key = hooks.missing_key or self.missing_keys.report
        self.losses = EventLosses(log, self.counts)
        self._receiver = self._build_receiver(identity, hooks)
        self._accepting = Counters()
        self._limiter = ConnectionLimiter(
            "accept", _accept_limits(self.settings), log=log, clock=self._clock, counters=self._accepting,
            is_known=self.agents.by_address.__contains__,
        )  # fmt: skip
        self.pool = ConnectionPool(self._receiver, self.events, self._clock, self.counts, self._limiter, self.settings)
        self.syslog = SyslogServer(self.counts, self.events, self._warnings)
        self.registry = RegistryFollower(
            self._store, self.agents, self.shared, self.pool, self._verification, self.counts
        )
        self._acceptors: list[Acceptor] = []

    def _build_receiver(self, identity: Identity, hooks: Hooks) -> MessageReceiver:
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
            highest_version=self.settings.highest_version,
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
        await self.registry.refresh()
        tasks = self._tasks
        tasks.vital("states", self.states.run)
        tasks.vital("events", self.events.run)
        tasks.keep("keys", self.registry.run)
        tasks.keep("connections", self.pool.sweep)
        tasks.keep("losses", self.losses.run)
        tasks.keep("shared files", self.shared.watch)
        tasks.keep("first groups", self.shared.run_assignments)
        for number in range(self.settings.senders):
            tasks.keep(f"sender {number + 1}", self.pusher.run)
        if self.settings.counts_sweep_seconds:
            tasks.keep("counts", self._sweep_counts)
        await self.local.open()
        await self._listen()

    async def stop(self) -> None:
        """Stop listening, write all accepted events and states, close all connections. Also after a failed start."""
        loop = asyncio.get_running_loop()
        for _, endpoint in self._ports.udp:
            loop.remove_reader(endpoint)
        for acceptor in self._acceptors:
            acceptor.close()
        self.syslog.stop_listening()
        await self.local.close()
        self.pool.close()
        self.syslog.close()
        await self._tasks.stop()
        self.states.stop()
        self.events.stop()
        await self._tasks.ended("states")
        await self._tasks.ended("events")
        if self._verification is not None:
            await self._verification.close()
        self._outgoing.close()
        self._warnings.flush()
        self.losses.report()
        self.events.close()
        self._ports.close()

    def _reset(self) -> None:
        with self._store.write() as connection:
            reset(connection, self._origin.node, now=int(self._clock.now().timestamp()))

    async def _listen(self) -> None:
        for block, listener in self._ports.tcp:
            if block.secure:
                self._acceptors.append(Acceptor([listener], self._limiter, self.pool.serve, log))
                self._acceptors[-1].start()
            else:
                await self.syslog.listen(block, listener)
        loop = asyncio.get_running_loop()
        for block, endpoint in self._ports.udp:
            take = self._datagrams_of(endpoint) if block.secure else self.syslog.receiver(block).datagram
            loop.add_reader(endpoint, read_datagrams, endpoint, take)

    def _datagrams_of(self, endpoint: socket.socket) -> Callable[[str, Address, bytes], None]:
        def take(source: str, address: Address, data: bytes) -> None:
            if self.events.full:
                self.counts.discarded += 1
            elif data:
                self._receiver.receive(DatagramPeer(endpoint, address, source), data)
            else:
                self.counts.unknown += 1

        return take

    def _room(self) -> None:
        self.pool.room()
        self.syslog.room()

    # Counters

    def counters(self) -> Mapping[str, Any]:
        """The statistics of the protocol, and the counters of this implementation."""
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
                "journal": journal.counters(),
                "key_requests": {"handed": self.missing_keys.handed, "dropped": self.missing_keys.dropped},
                "pushes_waiting": self.pusher.waiting,
                "requests": self.requests.in_flight,
                "syslog": counts.syslog,
            },
        }

    def _statistics(self) -> dict[str, Any]:
        return self.counts.statistics(
            now=int(self._clock.now().timestamp()),
            sessions=len(self.pool.connections) + len(self.syslog.connections),
            queue_size=self.settings.queue_size,
            queue_usage=self.events.usage,
        )

    async def _sweep_counts(self) -> None:
        """Drop the counters of agents that are no longer active."""
        while True:
            await asyncio.sleep(self.settings.counts_sweep_seconds)
            oldest = self._clock.now().timestamp() - self.settings.silent_seconds
            for agent in self.agents.by_number.values():
                session = agent.session
                if session.counts is not None and session.last_keepalive < oldest and self._silent(agent):
                    session.counts = None

    def _silent(self, agent: Agent) -> bool:
        return agent.session.last_keepalive == 0 or self._outgoing.path_to(agent) is None


def _verification(settings: LinkSettings, paths: Paths) -> CounterVerification | None:
    if not settings.verify_counters:
        return None
    return CounterVerification(ReceiverCounters(paths.counters), flush_every=settings.counters_every)


def _open_events(settings: LinkSettings, paths: Paths, clock: Clock) -> BatchWriter:
    limit = settings.events_limit
    journal = JournalWriter(paths.events, clock, limit=limit, segment=limit // SEGMENTS)
    return BatchWriter(journal, size=settings.queue_size, max_bytes=MAX_EVENT_BYTES, log=log, what="Events of agents")


def _accept_limits(settings: LinkSettings) -> AcceptLimits:
    """Connections that have not authenticated may all be of one address: thousands of agents may share it."""
    total = within_descriptors(AcceptLimits(total=settings.files, reserved=0, per_address=settings.files)).total
    unauthenticated = min(settings.unauthenticated_limit, max(1, total // 4))
    return AcceptLimits(total=total, reserved=total - unauthenticated, per_address=unauthenticated)
