"""The master's watch over the sources of all agents: asks the nodes, decides, reports."""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.registry.store import AgentStore
from secmon.agents.silent_agents import EventSink
from secmon.agents.sources.decide import AgentView, SilentSince, Snapshot, Summary, Transition, decide
from secmon.agents.sources.events import events_of
from secmon.agents.sources.gathered import GatheredSources
from secmon.agents.sources.presence import PresentAgent, read_agents
from secmon.agents.sources.reports import MAX_SILENT, WHOLE, SourceKey, SourceQuestion, SourceReport, SourceRow
from secmon.agents.sources.silent_list import SilentSource, write_silent
from secmon.common.clock import Clock, ClockJumps
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError, os_text
from secmon.common.logfile.failure_log import FailureLog
from secmon.common.paths import Paths
from secmon.config.silent_sources import SilentSourceSettings

log = logging.getLogger("secmon.modulesd.sources")

ROUND_SECONDS = 30.0
MAX_PAGES = 50
"""Answers of a node in one round; the rest follows in the next round."""
MAX_WAITING = 10_000
"""Events that wait for the journal; beyond, the oldest are dropped."""
JUMP_SECONDS = 10
_LOGGED = 20
"""Transitions of one round that are named in the log."""
_COUNTED = {"silent": "fallen_silent", "back": "returned", "forgotten": "forgotten"}


class Gather(Protocol):
    """Asks nodes for their sources."""

    async def __call__(self, asked: Mapping[str, SourceQuestion], *, others: bool) -> Mapping[str, SourceReport]:
        """The reports of those that answer; ``others``: ask all further nodes too. Raises SecmonError."""


class SourceWatch:
    """One round every half minute."""

    def __init__(
        self, states: AgentStore, settings: SilentSourceSettings, gather: Gather, *, sink: EventSink, paths: Paths,
        clock: Clock, counters: Counters,
    ) -> None:  # fmt: skip
        self._states, self._settings, self._gather = states, settings, gather
        self._sink, self._paths, self._clock, self._counters = sink, paths, clock, counters
        self._gathered = GatheredSources()
        self._silent: dict[SourceKey, SilentSince] = {}
        self._connected: dict[int, AgentView] = {}
        self._returned: dict[int, int] = {}
        self._decided: list[Transition] = []
        self._events: deque[bytes] = deque(maxlen=MAX_WAITING)
        self._jumps = ClockJumps(clock)
        self._listed: list[SilentSource] | None = None
        self._trouble = FailureLog(log, "silent sources cannot be found", "silent sources are found again")

    async def run(self) -> None:
        """Watch until cancelled."""
        if not self._settings.enabled:
            log.info("Silent sources are not reported: silent_sources.enabled is no")
            await asyncio.to_thread(self._show, {})
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(ROUND_SECONDS)  # at a start the other daemons are not ready
            await self.round()

    async def round(self) -> None:
        """Ask, decide, report. What fails is tried again in the next round."""
        try:
            await self._ask()
            await asyncio.to_thread(self._decide)
            self._trouble.succeeded()
        except SecmonError as error:
            self._trouble.call_failed(error)
        except SQLAlchemyError as error:
            self._trouble.failed(str(error))
        await self._deliver()

    def _now(self) -> int:
        return int(self._clock.now().timestamp())

    async def _ask(self) -> None:
        self._gathered.begin()
        asked = self._gathered.questions(self._silent)
        reports = await self._gather(asked, others=True)
        for _ in range(MAX_PAGES):
            for name, report in reports.items():
                self._take_over(self._gathered.add(name, report, self._now()))
            asked = {name: one for name, one in self._gathered.questions(self._silent).items() if name in reports}
            if not asked:
                return
            reports = await self._gather(asked, others=False)

    def _take_over(self, marked: Mapping[SourceKey, int]) -> None:
        """Sources that were silent before this watch began: their event was raised."""
        for key, last in marked.items():
            self._silent.setdefault(key, SilentSince(last, self._now(), 0))

    def _decide(self) -> None:
        now = self._now()
        agents = read_agents(self._states, now)
        self._follow(agents, now)
        self._gathered.forget(agents)

        def limit(row: SourceRow) -> int | None:
            return self._settings.limit(agents[row.agent].groups, row.location, now - row.first, row.hours, row.pause)

        sources = self._gathered.sources(limit)
        snapshot = Snapshot(sources, self._gathered.nodes(), self._connected, self._silent, self._returned)
        self._apply(decide(snapshot), now)
        self._complete(sources)
        self._events.extend(events_of(self._decided, agents))
        self._show(agents)
        watched = sum(one.limit is not None for rows in sources.values() for one in rows.values())
        self._counters.set("sources.watched", watched)
        self._counters.set("sources.silent", len(self._silent))

    def _complete(self, sources: Mapping[int, Mapping[str, Summary]]) -> None:
        """The limits of sources that an earlier master has found silent."""
        for key, one in self._silent.items():
            if not one.limit and (found := sources.get(key.agent, {}).get(key.location)) is not None:
                self._silent[key] = one._replace(limit=found.limit or 0)

    def _follow(self, agents: Mapping[int, PresentAgent], now: int) -> None:
        """Since when each agent is connected to its node, as far as this watch has seen it."""
        known = {} if abs(self._jumps.seconds()) > JUMP_SECONDS else self._connected
        self._connected = {}
        for number, one in agents.items():
            if one.node is not None:
                before = known.get(number)
                fits = before is not None and before.node == one.node
                self._connected[number] = before if before is not None and fits else AgentView(one.node, now)
        self._returned = {number: at for number, at in self._returned.items() if number in self._connected}

    def _apply(self, transitions: Sequence[Transition], now: int) -> None:
        """Remember which sources are silent from now on; the transitions that were possible are :attr:`_decided`."""
        self._decided = []
        for one in transitions:
            if one.kind == "silent" and len(self._silent) >= MAX_SILENT:
                self._counters.add("sources.unreported")
                continue
            if one.kind == "silent":
                self._silent[one.key] = SilentSince(one.last, now, one.limit)
            else:
                del self._silent[one.key]
            if one.kind == "back" and one.key.location == WHOLE:
                self._returned[one.key.agent] = one.last
            self._counters.add(f"sources.{_COUNTED[one.kind]}")
            self._decided.append(one)
        if self._decided:
            self._gathered.changed()
            shown = "; ".join(one.reason for one in self._decided[:_LOGGED])
            log.info("%s%s", shown, f"; {len(self._decided) - _LOGGED} more" if len(self._decided) > _LOGGED else "")

    def _show(self, agents: Mapping[int, PresentAgent]) -> None:
        """Write the list that the API reads, if it is another one."""
        listed = [
            SilentSource(
                agent=key.agent,
                name=agents[key.agent].name,
                location=key.location,
                last_event=one.last,
                expected_seconds=one.limit,
                since=one.found,
            )
            for key, one in self._silent.items()
            if key.agent in agents
        ]
        if listed == self._listed:
            return
        try:
            write_silent(self._paths.silent_sources, listed)
        except OSError as error:
            log.warning("The list of silent sources is not written: %s", os_text(error))
        else:
            self._listed = listed

    async def _deliver(self) -> None:
        """Hand the events to the analysis of this node; they wait while it has no room."""
        if not self._events:
            return
        try:
            taken = await self._sink.record(list(self._events))
        except SecmonError as error:
            log.debug("%d events wait: %s", len(self._events), error.message)
            return
        for _ in range(taken):
            self._events.popleft()
