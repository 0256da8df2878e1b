"""Scans of the hosts whose agents report to this node: those with changes, and all when advisories have changed.

Each step scans some hosts, so that messages of agents are stored meanwhile. Marks and digests in the store say what is
left to do: a kill neither loses a scan nor repeats its events.
"""

import logging
from collections import deque
from collections.abc import Iterator
from datetime import timedelta

import msgspec
from sqlalchemy import Connection, bindparam, delete, func, select

from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.inventory.changes import Changes
from secmon.inventory.schema import pending_events, vulnerabilities, vulnerability_marks, vulnerability_scans
from secmon.inventory.store import InventoryStore
from secmon.inventory.vulnerabilities.events import Reporter
from secmon.inventory.vulnerabilities.matching import Matcher
from secmon.inventory.vulnerabilities.readiness import is_ready
from secmon.inventory.vulnerabilities.rows import OBSOLETE
from secmon.inventory.vulnerabilities.scan import scan_host
from secmon.knowledge.vulnerabilities.records import FeedError
from secmon.knowledge.vulnerabilities.source import AdvisorySource

log = logging.getLogger("secmon.db")

_STEP_SECONDS = 0.2
"""Time that a step takes about, at most."""
_LOOK_SECONDS = 1.0
"""Time between two looks for changes."""
_POSTPONED_SECONDS = 30.0
"""Time before a host is tried again whose advisories cannot be read."""
_PURGE_SECONDS = 3600.0

_marks, _scans = vulnerability_marks.c, vulnerability_scans.c
_NEXT_MARKED = select(func.min(_marks.agent_id)).where(_marks.agent_id > bindparam("agent"))
_MARKED = select(func.min(_marks.marked), func.max(_marks.marked)).where(_marks.agent_id == bindparam("agent"))
_REQUESTED = select(_scans.agent_id).where(_scans.requested != 0)
_SCANNED = select(_scans.agent_id, _scans.feeds)
_PENDING = select(pending_events.c.id).limit(1)


class VulnerabilityScanner:
    """For the thread that also writes the inventory. All methods block."""

    def __init__(
        self,
        store: InventoryStore,
        registry: AgentStore,
        source: AdvisorySource,
        *,
        node: str | None,
        clock: Clock,
        counters: Counters,
        kept: timedelta,
    ) -> None:
        """``node``: the name of this node in a cluster. ``kept``: how long rows of solved vulnerabilities stay."""
        self._store, self._registry, self._source = store, registry, source
        self._node, self._clock, self._counters, self._kept = node, clock, counters, kept
        self._matcher = Matcher(source)
        self._due: deque[Reporter] = deque()
        self._outdated: set[int] = set()
        self._postponed: dict[int, float] = {}
        self._next_look = self._next_purge = 0.0

    @property
    def waiting(self) -> int:
        """Hosts that are to be scanned now, and those that have to be when they report to this node again."""
        return len(self._outdated | {each.agent for each in self._due})

    def step(self) -> bool:
        """Scan some of the hosts that are due; whether there were any. Raises SQLAlchemyError, StoreFault."""
        if not self._due:
            self._look()
        if not self._due or self._events_wait():
            return False
        end = self._clock.monotonic() + _STEP_SECONDS
        done = []
        with self._store.write() as connection:
            while self._due and self._clock.monotonic() < end:
                reporter = self._due.popleft()
                if self._scan(connection, reporter):
                    done.append(reporter.agent)
        self._outdated.difference_update(done)
        return bool(done)

    def _events_wait(self) -> bool:
        with self._store.read() as connection:
            return connection.execute(_PENDING).first() is not None

    def _look(self) -> None:
        now = self._clock.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        if now >= self._next_purge:
            self._next_purge = now + _PURGE_SECONDS
            self._purge()
        refreshed = self._source.refresh()
        with self._store.read() as connection:
            if refreshed:
                self._matcher.forget()
                self._outdated = {agent for agent, feeds in connection.execute(_SCANNED) if self._is_outdated(feeds)}
            due = self._outdated.union(_marked(connection), connection.execute(_REQUESTED).scalars())
        self._postponed = {agent: until for agent, until in self._postponed.items() if until > now}
        if due := due - self._postponed.keys():
            self._due.extend(each for each in self._reporting() if each.agent in due)

    def _is_outdated(self, feeds: str) -> bool:
        """Whether an agent was compared with other advisories than those in force."""
        known: dict[str, str] = msgspec.json.decode(feeds)
        try:
            return any(self._source.digest(ecosystem) != digest for ecosystem, digest in known.items())
        except FeedError:
            return False

    def _scan(self, connection: Connection, of: Reporter) -> bool:
        """Scan a host, if what is known of it is complete."""
        changes, now = Changes(connection), self._clock.now().timestamp()
        first, last = tuple(changes.execute(vulnerability_marks, _MARKED, {"agent": of.agent}).one())
        if first is not None and not is_ready(changes, of.agent, first=first, last=last, now=now):
            return False
        begun = self._clock.monotonic()
        try:
            result = scan_host(changes, of, self._matcher, int(now))
        except FeedError as error:
            log.error("Agent %03d is not compared with advisories: %s", of.agent, error)
            self._counters.add("vulnerabilities.scans_failed")
            self._postponed[of.agent] = begun + _POSTPONED_SECONDS
            return False
        changes.flush_all()
        taken = round((self._clock.monotonic() - begun) * 1e6)
        figures = {"scans": 1, "scans_us": taken, "appeared": result.appeared, "solved": result.solved}
        for name, number in figures.items():
            self._counters.add(f"vulnerabilities.{name}", number)
        if result.appeared or result.solved:
            log.info("Agent %03d: %d vulnerabilities found, %d solved", of.agent, result.appeared, result.solved)
        return True

    def _reporting(self) -> list[Reporter]:
        """The agents that report to this node now."""
        wanted = select(agents.c.id, agents.c.name, agents.c.register_ip).where(agents.c.connection_status == "active")
        if self._node is not None:
            wanted = wanted.where(agents.c.node_name == self._node)
        with self._registry.read() as connection:
            return [Reporter(*row) for row in connection.execute(wanted.order_by(agents.c.id))]

    def _purge(self) -> None:
        """Delete rows of what was solved long ago."""
        solved = vulnerabilities.c.solved_time
        before = int((self._clock.now() - self._kept).timestamp())
        old = solved.is_not(None), solved < before, vulnerabilities.c.status == OBSOLETE
        with self._store.write() as connection:
            connection.execute(delete(vulnerabilities).where(*old))


def _marked(connection: Connection) -> Iterator[int]:
    """Agents with changes: one look into the index for each."""
    agent: int | None = -1
    while (agent := connection.execute(_NEXT_MARKED, {"agent": agent}).scalar()) is not None:
        yield agent
