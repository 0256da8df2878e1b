"""Detection of silent agents, events about them, and removal of old ones (agent-link.md 6.8). On the master."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.names import padded
from secmon.agents.registry import registry
from secmon.agents.registry.entries import pick
from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.agents.state_updates import SILENT, SilentAgent, sweep
from secmon.agents.wire.address import bare
from secmon.agents.wire.location import source
from secmon.common.clock import Clock, ClockJumps
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.config.auth import read_auth
from secmon.config.main import MainConfig
from secmon.config.options import InternalOptions

_log = logging.getLogger("secmon.modulesd.agents")

LOCATION = "secmon-monitord"
MAX_TICK_SECONDS = 5.0
JUMP_SECONDS = 5.0
"""Of the clock, beyond which times of keepalives do not compare with it."""
FIRST_REPORTS_SECONDS = 60.0
"""After a start, until workers have joined and reported what they have heard meanwhile."""
MAX_WAITING = 100_000
"""Events queued for the journal; beyond, the oldest are dropped."""


class EventSink(Protocol):
    """Stores events of other daemons in the journal of this node."""

    async def record(self, lines: Sequence[bytes]) -> int:
        """Store lines ``<queue>:<location>:<log>`` in order; return how many. Raises SecmonError 1014."""


class SilenceSettings(NamedTuple):
    """Times in seconds. ``sweeping`` False: the monitor does nothing."""

    disconnection_seconds: int = 600
    alert_seconds: int = 0
    sweeping: bool = True
    delete_after_seconds: int = 0
    """Silence, beyond the disconnection, after which agents are removed; 0: never."""
    purge: bool = False

    @classmethod
    def of(cls, config: MainConfig, options: InternalOptions) -> "SilenceSettings":
        return cls(
            disconnection_seconds=max(1, config.seconds("global", "agents_disconnection_time", default=600)),
            alert_seconds=config.seconds("global", "agents_disconnection_alert_time", default=0),
            sweeping=bool(options.get("monitord.monitor_agents")),
            delete_after_seconds=options.get("monitord.delete_old_agents") * 60,
            purge=read_auth(config).purge,
        )


class SilenceMonitor:
    """Searches for silent agents every few seconds, so that they are found soon after the limit."""

    def __init__(
        self, states: AgentStore, registry_store: AgentStore, settings: SilenceSettings, *, sink: EventSink,
        clock: Clock, counters: Counters,
    ) -> None:  # fmt: skip
        """``states`` need not be durable, ``registry_store`` must be."""
        self._states, self._registry, self._settings = states, registry_store, settings
        self._sink, self._clock, self._counters = sink, clock, counters
        self._watched: dict[int, SilentAgent] = {}
        self._events: deque[bytes] = deque(maxlen=MAX_WAITING)
        self._next_removal = 0.0
        self._jumps = ClockJumps(clock)
        self._judging_from = clock.monotonic() + min(FIRST_REPORTS_SECONDS, settings.disconnection_seconds)
        self._failing = ""

    @property
    def tick_seconds(self) -> float:
        return min(MAX_TICK_SECONDS, max(1.0, self._settings.disconnection_seconds / 10))

    async def run(self) -> None:
        """Monitor until cancelled."""
        if not self._settings.sweeping:
            _log.info("Silent agents are not monitored: monitord.monitor_agents is 0")
            await asyncio.Event().wait()
        await self._attempt(self._load_silent)
        while True:
            await self.tick()
            await asyncio.sleep(self.tick_seconds)

    async def tick(self) -> None:
        """Search once. Failures are logged and retried at the next tick."""
        await self._attempt(self._sweep)
        await self._deliver()

    async def _attempt(self, work: Callable[[], None]) -> None:
        try:
            await asyncio.to_thread(work)
            self._failing = ""
        except SQLAlchemyError as error:
            if self._failing != str(error):
                _log.error("The states of agents cannot be read: %s", error)
            self._failing = str(error)

    def _now(self) -> int:
        return int(self._clock.now().timestamp())

    def _load_silent(self) -> None:
        """Load agents found silent by an earlier process whose event is still due."""
        due = self._now() - self._settings.disconnection_seconds - self._settings.alert_seconds
        columns = (agents.c.id, agents.c.name, agents.c.register_ip, agents.c.last_keepalive)
        silent = (agents.c.connection_status == "disconnected", agents.c.status_code == SILENT)
        with self._states.read() as connection:
            rows = connection.execute(select(*columns).where(*silent, agents.c.last_keepalive >= due))
            self._watched = {row[0]: SilentAgent(*row) for row in rows}

    def _sweep(self) -> None:
        now, settings = self._now(), self._settings
        if not self._can_judge():
            self._alert(now)
            return
        with self._states.write() as connection:
            lost = sweep(connection, now=now, limit=settings.disconnection_seconds)
        self._watched.update({one.id: one for one in lost})
        if lost:
            self._counters.add("agents.lost", len(lost))
            _log.info("Agents without a keepalive in time: %s", _format_ids(one.id for one in lost))
        self._alert(now)
        if settings.delete_after_seconds and self._clock.monotonic() >= self._next_removal:
            self._next_removal = self._clock.monotonic() + settings.delete_after_seconds
            self._remove_old(now)

    def _can_judge(self) -> bool:
        """Whether agents that are connected have had the time for a keepalive by the clock as it is."""
        jump, ticks = self._jumps.seconds(), self._clock.monotonic()
        if abs(jump) > JUMP_SECONDS:
            pause = self._settings.disconnection_seconds
            self._judging_from = ticks + pause
            text = "The clock was set by %+.0f s, or this host was suspended: no agent is judged silent for %d s"
            _log.warning(text, jump, pause)
        return ticks >= self._judging_from

    def _alert(self, now: int) -> None:
        """Queue events about agents that are silent for long enough or removed; forget those that are back."""
        limit = self._settings.disconnection_seconds + self._settings.alert_seconds
        with self._states.read() as connection:
            columns = (
                agents.c.id,
                agents.c.name,
                agents.c.register_ip,
                agents.c.connection_status,
                agents.c.last_keepalive,
            )
            found = {row.id: row for row in pick(connection, columns, list(self._watched))}
        for one in list(self._watched.values()):
            row = found.get(one.id)
            if row is None or (row.name, row.register_ip) != (one.name, one.register_ip):
                self._queue_removed(one.name, one.register_ip)
            elif row.connection_status != "disconnected":
                pass
            elif (row.last_keepalive or 0) < now - limit:
                self._queue_disconnected(one)
            else:
                continue
            del self._watched[one.id]

    def _queue_disconnected(self, one: SilentAgent) -> None:
        address = bare(one.register_ip)
        place = source(padded(one.id), one.name, address)
        self._events.append(f"1:{place}{LOCATION}:ossec: Agent disconnected: '{one.name}-{address}'.".encode())

    def _queue_removed(self, name: str, address: str) -> None:
        self._events.append(f"1:{LOCATION}:ossec: Agent removed: '{name}-{bare(address)}'.".encode())

    def _remove_old(self, now: int) -> None:
        oldest = now - self._settings.disconnection_seconds - self._settings.delete_after_seconds
        old = (agents.c.connection_status == "disconnected", agents.c.last_keepalive < oldest)
        with self._registry.write() as connection:
            ids = list(connection.execute(select(agents.c.id).where(*old)).scalars())
            gone = registry.remove(connection, ids, purge=self._settings.purge)
        for entry in gone:
            self._watched.pop(entry.id, None)
            self._queue_removed(entry.name, entry.register_ip)
        if gone:
            self._counters.add("agents.removed_as_old", len(gone))
            _log.warning("Removed agents that were silent for too long: %s", _format_ids(entry.id for entry in gone))

    async def _deliver(self) -> None:
        while self._events:
            try:
                taken = await self._sink.record(list(self._events))
            except SecmonError as error:
                _log.debug("%d events wait: %s", len(self._events), error.message)
                return
            for _ in range(taken):
                self._events.popleft()
            if not taken:
                return


def _format_ids(ids: Iterable[int]) -> str:
    shown = [padded(one) for one in ids]
    return ", ".join(shown[:20]) + (f" and {len(shown) - 20} more" if len(shown) > 20 else "")
