"""The connections of agents, and what bounds them: their turns, their number, their time to say who they are."""

import asyncio
import socket
from collections.abc import Callable, Iterable

from secmon.agentlink.agent_table import Agent
from secmon.agentlink.backpressure import Backpressure
from secmon.agentlink.counters import LinkCounts
from secmon.agentlink.receiving import MessageReceiver
from secmon.agentlink.tcp import LARGEST_READ, Connection
from secmon.common.accept.acceptor import Accepted
from secmon.common.accept.limiter import ConnectionLimiter
from secmon.common.clock import Clock
from secmon.journal.batch_writer import BatchWriter

TURN_BYTES = 1 << 20
"""Bytes that all connections together may bring in a turn of the loop, when many have much to say."""
SWEEP_SECONDS = 5.0
MAX_PER_AGENT = 4
"""Connections that an agent may have: one to be answered on, and others that bring events only."""


class ConnectionPool:
    """All TCP connections of agents. A peer that is slow, silent or floods costs its own connection."""

    def __init__(
        self,
        receiving: MessageReceiver,
        events: BatchWriter,
        clock: Clock,
        counts: LinkCounts,
        *,
        read_chunk: int,
        send_limit: int,
        limiter: ConnectionLimiter,
        unauthenticated_seconds: float,
        hold_seconds: float,
    ) -> None:
        self.buffer = memoryview(bytearray(LARGEST_READ))
        self.connections: set[Connection] = set()
        self._receiving = receiving
        self._clock = clock
        self._counts = counts
        self._chunk = read_chunk
        self._send_limit = send_limit
        self._limiter = limiter
        self._unproved_seconds = unauthenticated_seconds
        self._unauthenticated: dict[Connection, None] = {}  # the oldest first
        self._authenticated: dict[Agent, list[Connection]] = {}  # of each agent the oldest first
        self._share = LARGEST_READ
        self._resting: list[Connection] = []
        self._turn_comes = False
        self._holding = Backpressure(events, counts, seconds=hold_seconds)
        self.must_wait = self._holding.must_wait
        self.hold = self._holding.hold
        self.payload: Callable[[Connection, bytes], None] = receiving.receive

    async def serve(self, connection: socket.socket, accepted: Accepted) -> None:
        """Begin to read an accepted connection."""
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(
            lambda: Connection(self, send_limit=self._send_limit, accepted=accepted), connection
        )

    @property
    def held(self) -> int:
        """Connections that are not read for now because they bring too many events."""
        return len(self._holding)

    def takes(self, connection: Connection, agent: Agent, size: int) -> bool:
        return self._holding.takes(connection, agent, size, sharers=len(self._authenticated))

    def allowance(self, connection: Connection) -> int:
        return self._chunk if self._holding.watches(connection) else self._share

    def broken(self, connection: Connection, why: str) -> None:
        self._receiving.broken(connection, why)

    def opened(self, connection: Connection) -> None:
        self.connections.add(connection)
        connection.since = self._clock.monotonic()
        self._unauthenticated[connection] = None

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
            next(each for each in known if each is not agent.route).close()

    def gone(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._unauthenticated.pop(connection, None)
        self._forget(connection)
        self._holding.forget(connection)
        if connection.accepted is not None:
            self._limiter.release(connection.accepted.slot)

    def _forget(self, connection: Connection) -> None:
        """It is no longer, or not yet, a connection of its agent."""
        agent = connection.agent
        known = self._authenticated.get(agent) if agent is not None else None
        if agent is not None and known is not None and connection in known:
            known.remove(connection)
            if not known:
                del self._authenticated[agent]

    def rest(self, connection: Connection) -> None:
        self._resting.append(connection)
        if not self._turn_comes:
            self._turn_comes = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def wake_all(self) -> None:
        """There is room again."""
        self._holding.end()

    def close_those_of(self, agents: Iterable[Agent]) -> None:
        """End all connections of agents whose keys no longer count."""
        for agent in agents:
            for connection in list(self._authenticated.get(agent, ())):
                connection.close()

    def close(self) -> None:
        for connection in list(self.connections):
            connection.close()

    async def sweep(self) -> None:
        """Close, for ever, connections that have not said who they are in time."""
        while True:
            await asyncio.sleep(min(SWEEP_SECONDS, self._unproved_seconds))
            limit = self._clock.monotonic() - self._unproved_seconds
            for connection in [each for each in self._unauthenticated if each.since < limit]:
                self._counts.evicted += 1
                connection.close()

    def _next_turn(self) -> None:
        self._turn_comes = False
        resting, self._resting = self._resting, []
        self._share = max(self._chunk, min(LARGEST_READ, TURN_BYTES // max(1, len(resting))))
        for connection in resting:
            connection.wake()
