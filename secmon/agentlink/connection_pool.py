"""All TCP connections of agents, and their bounds: turns, number, time to authenticate."""

import asyncio
import socket
from collections.abc import Callable, Iterable

from secmon.agentlink.agent_table import Agent
from secmon.agentlink.backpressure import Backpressure
from secmon.agentlink.connection_state import State
from secmon.agentlink.counters import LinkCounts
from secmon.agentlink.receiving import MessageReceiver
from secmon.agentlink.settings import LinkSettings
from secmon.agentlink.tcp import LARGEST_READ, Connection
from secmon.common.accept.acceptor import Accepted
from secmon.common.accept.limiter import ConnectionLimiter
from secmon.common.clock import Clock
from secmon.journal.batch_writer import BatchWriter

TURN_BYTES = 1 << 20
"""Bytes that all connections together may bring in a turn of the loop, when many have much to send."""
SWEEP_SECONDS = 5.0
MAX_PER_AGENT = 4
"""Connections of one agent: one for replies, and others that bring events only."""


class ConnectionPool:
    """The pool bounds every peer: one that is slow, silent or floods can only lose its own connection."""

    def __init__(
        self,
        receiver: MessageReceiver,
        events: BatchWriter,
        clock: Clock,
        counts: LinkCounts,
        limiter: ConnectionLimiter,
        settings: LinkSettings,
    ) -> None:
        self.buffer = memoryview(bytearray(LARGEST_READ))
        self.connections: set[Connection] = set()
        self.receive: Callable[[Connection, bytes], None] = receiver.receive
        self.broken: Callable[[Connection, str], None] = receiver.broken
        self._clock = clock
        self._counts = counts
        self._limiter = limiter
        self._settings = settings
        self._unauthenticated: dict[Connection, None] = {}  # the oldest first
        self._authenticated: dict[Agent, list[Connection]] = {}  # of each agent the oldest first
        self._turn_bytes = LARGEST_READ
        self._yielded: list[Connection] = []
        self._turn_scheduled = False
        self._backpressure = Backpressure(events, counts, hold_seconds=settings.hold_seconds)

    async def serve(self, connection: socket.socket, accepted: Accepted) -> None:
        """Begin to read an accepted connection."""
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(
            lambda: Connection(self, send_limit=self._settings.send_limit, accepted=accepted), connection
        )

    @property
    def held(self) -> int:
        """Connections that are not read because they bring too many events."""
        return self._backpressure.held

    # As tcp.Pool

    def opened(self, connection: Connection) -> None:
        self.connections.add(connection)
        connection.since = self._clock.monotonic()
        self._unauthenticated[connection] = None

    def allowance(self, connection: Connection) -> int:
        return self._settings.read_chunk if self._backpressure.reads_little(connection) else self._turn_bytes

    def accepts_event(self, connection: Connection, agent: Agent, size: int) -> bool:
        return self._backpressure.accepts_event(connection, agent, size, agents=len(self._authenticated))

    def after_read(self, connection: Connection, *, caught_up: bool) -> None:
        self._backpressure.after_read(connection, caught_up=caught_up)
        if not caught_up and connection.state is not State.HELD:
            self.yield_turn(connection)

    def authenticated(self, connection: Connection, agent: Agent) -> None:
        self._unauthenticated.pop(connection, None)
        if connection.accepted is not None:
            self._limiter.authenticated(connection.accepted.slot)
            connection.accepted.slot.busy = True
        self._forget(connection)
        known = self._authenticated.setdefault(agent, [])
        known.append(connection)
        if len(known) > MAX_PER_AGENT:
            self._counts.evicted += 1
            next(each for each in known if each is not agent.session.reply_path).close()

    def gone(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._unauthenticated.pop(connection, None)
        self._forget(connection)
        self._backpressure.forget(connection)
        if connection.accepted is not None:
            self._limiter.release(connection.accepted.slot)

    # Turns: one connection that has much to say does not keep others waiting

    def yield_turn(self, connection: Connection) -> None:
        """Pause reading until the next turn."""
        connection.pause()
        self._yielded.append(connection)
        if not self._turn_scheduled:
            self._turn_scheduled = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn_scheduled = False
        yielded, self._yielded = self._yielded, []
        share = min(LARGEST_READ, TURN_BYTES // max(1, len(yielded)))
        self._turn_bytes = max(self._settings.read_chunk, share)
        for connection in yielded:
            if connection.state is not State.HELD:
                connection.resume()

    # Called by the link

    def room(self) -> None:
        """Events were written: read the connections that were held."""
        self._backpressure.room()

    def close_connections_of(self, agents: Iterable[Agent]) -> None:
        """Close all connections of agents whose keys are no longer valid."""
        for agent in agents:
            for connection in list(self._authenticated.get(agent, ())):
                connection.close()

    def close(self) -> None:
        for connection in list(self.connections):
            connection.close()

    async def sweep(self) -> None:
        """Close connections that have not authenticated in time; does not return."""
        limit = self._settings.unauthenticated_seconds
        while True:
            await asyncio.sleep(min(SWEEP_SECONDS, limit))
            self._evict(self._clock.monotonic() - limit)

    def _evict(self, oldest: float) -> None:
        """Apart from the task, whose variables would keep the last connection."""
        for connection in [each for each in self._unauthenticated if each.since < oldest]:
            self._counts.evicted += 1
            connection.close()

    def _forget(self, connection: Connection) -> None:
        """Remove it from the connections of its agent."""
        agent = connection.agent
        known = self._authenticated.get(agent) if agent is not None else None
        if agent is not None and known is not None and connection in known:
            known.remove(connection)
            if not known:
                del self._authenticated[agent]
