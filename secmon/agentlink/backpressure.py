"""Backpressure on agents while the queue of events has no room: which connections wait, and how long.

While the queue of events is half full, each agent may bring its share of the rest. A connection that brings more is
held, drained and held again as ``connection_state`` says, until there is room.
"""

import asyncio

from secmon.agentlink.agent_table import Agent
from secmon.agentlink.connection_state import Event, Read, Signal, State, next_state
from secmon.agentlink.counters import LinkCounts
from secmon.agentlink.tcp import Connection
from secmon.journal.batch_writer import BatchWriter

_OVERRUN = 4096
"""Events that reads under way may bring beyond twice the size of the queue."""


class Backpressure:
    """Drives the states of connections; keeps those that are held or drained."""

    def __init__(self, events: BatchWriter, counts: LinkCounts, *, hold_seconds: float) -> None:
        """``hold_seconds`` bounds each hold."""
        self._events = events
        self._counts = counts
        self._hold_seconds = hold_seconds
        self._held: dict[Connection, asyncio.TimerHandle] = {}
        self._draining: dict[Connection, int] = {}  # and the control messages of its agent when that began

    @property
    def held(self) -> int:
        """Connections that are not read."""
        return len(self._held)

    def accepts_event(self, connection: Connection, agent: Agent, size: int, *, agents: int) -> bool:
        """Whether one more event of ``size`` bytes is taken, with ``agents`` connected.

        Shares are agents', not connections', so that connecting again brings none. The rest of the read that goes over
        the share is taken, unless there is far too much of it: what was read cannot be given back to TCP.
        """
        events, session = self._events, agent.session
        if session.share_period != events.period:
            session.share_period, session.share_used = events.period, 0
        share = max(1, events.size // 2 // max(1, agents))
        draining = connection.state is State.DRAINING
        if (draining and session.share_used >= share) or events.load >= 2 * events.size + _OVERRUN:
            connection.over_share = True
            return False
        session.share_used += events.cost(size)
        if session.share_used > share:
            connection.over_share = True
        return True

    def reads_little(self, connection: Connection) -> bool:
        """Whether its reads must be short: all that a read brings is taken, however small the share is."""
        return self._events.half_full and connection.state is not State.DRAINING

    def after_read(self, connection: Connection, *, caught_up: bool) -> None:
        """A read was handled; ``caught_up``: nothing more has come so far."""
        # The peer's system sends its buffer in pieces: to have caught up once does not mean that the agent was heard.
        begin = self._draining.get(connection)
        heard = begin is not None and _control_messages(connection) != begin
        self._advance(connection, Read(connection.over_share, caught_up, heard))

    def room(self) -> None:
        """End all holds: events were written."""
        for connection in (*self._held, *self._draining):
            self._advance(connection, Signal.ROOM)

    def forget(self, connection: Connection) -> None:
        """Drop the state of a closed connection."""
        if (timer := self._held.pop(connection, None)) is not None:
            timer.cancel()
        self._draining.pop(connection, None)

    def _advance(self, connection: Connection, event: Event) -> None:
        state = next_state(connection.state, event)
        if state is connection.state:
            return
        self.forget(connection)
        connection.state = state
        connection.over_share = False
        if state is State.HELD:
            self._counts.holds += 1
            connection.pause()
            loop = asyncio.get_running_loop()
            expiry = loop.call_later(self._hold_seconds, self._advance, connection, Signal.HOLD_EXPIRED)
            self._held[connection] = expiry
            return
        if state is State.DRAINING:
            self._draining[connection] = _control_messages(connection)
        connection.resume()


def _control_messages(connection: Connection) -> int:
    """Control messages that its agent has sent, over any connection."""
    counts = connection.agent.session.counts if connection.agent is not None else None
    return counts.control if counts is not None else 0
