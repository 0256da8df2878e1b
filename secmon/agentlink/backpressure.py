"""Push-back on agents while events find no room: who must wait, and for how long.

While the queue of events is tight each agent may bring its share of what is left. A connection that brings more is
held: it is not read, so that TCP stops its peer and nothing is lost. A hold is bounded, for control messages wait
behind the events. A connection whose hold has lasted that long is read until a control message came and nothing more
waits: control messages count as always, events over the share are dropped; then it is held again. Room ends all holds.
"""

import asyncio

from secmon.agentlink.agent_table import Agent
from secmon.agentlink.counters import LinkCounts
from secmon.agentlink.tcp import Connection
from secmon.journal.batch_writer import BatchWriter

_SPARE = 4096
"""Events beyond the size of the queue, for small queues."""


class Backpressure:
    """The connections that are held."""

    def __init__(self, events: BatchWriter, counts: LinkCounts, *, seconds: float) -> None:
        """``seconds`` bounds each hold."""
        self._events = events
        self._counts = counts
        self._seconds = seconds
        self._held: dict[Connection, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._held)

    def takes(self, connection: Connection, agent: Agent, size: int, *, sharers: int) -> bool:
        """Whether one more event of ``size`` bytes is taken; ``sharers``: agents that are connected.

        Shares are agents', not connections', so that connecting again brings none. What was read before anybody
        could be held is taken all the same, unless there is far too much of it.
        """
        events = self._events
        if agent.taken_in != events.period:
            agent.taken_in, agent.taken = events.period, 0
        share = max(1, events.size // 2 // max(1, sharers))
        if self._overrun or (agent.taken >= share and connection.drains_in == events.period):
            connection.over_in = events.period
            return False
        agent.taken += events.cost(size)
        if agent.taken > share:
            connection.over_in = events.period
        return True

    @property
    def _overrun(self) -> bool:
        """Far more waits than all shares together: reads that were under way have brought it."""
        return self._events.load >= 2 * self._events.size + _SPARE

    def watches(self, connection: Connection) -> bool:
        """Whether it should read little at a time: all that a read brings is taken, however little was wanted."""
        return self._events.half_full and connection.drains_in != self._events.period

    def must_wait(self, connection: Connection, *, caught_up: bool) -> bool:
        """As ``Pool.must_wait``."""
        period = self._events.period
        if connection.over_in == period:
            # What its peer's system keeps follows in pieces: to have caught up once is not to have heard the agent.
            return connection.drains_in != period or (caught_up and _controls(connection) != connection.controls)
        if caught_up:
            connection.drains_in = -1
        return False

    def hold(self, connection: Connection) -> None:
        """As ``Pool.hold``."""
        self._counts.holds += 1
        connection.held = True
        connection.over_in = connection.drains_in = -1
        self._held[connection] = asyncio.get_running_loop().call_later(self._seconds, self._long_enough, connection)

    def end(self) -> None:
        """There is room."""
        held, self._held = self._held, {}
        for connection, timer in held.items():
            timer.cancel()
            connection.held = False
            connection.wake()

    def forget(self, connection: Connection) -> None:
        """It is closed."""
        timer = self._held.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _long_enough(self, connection: Connection) -> None:
        del self._held[connection]
        connection.held = False
        connection.drains_in = self._events.period
        connection.controls = _controls(connection)
        connection.wake()


def _controls(connection: Connection) -> int:
    """Control messages that its agent has sent."""
    counts = connection.agent.counts if connection.agent is not None else None
    return counts.control if counts is not None else 0
