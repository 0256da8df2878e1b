"""A cluster in which sources of events live: the nodes' tables, the master's watch, and time at our choosing."""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from sqlalchemy import insert, update

from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.agents.sources.presence import Presence
from secmon.agents.sources.reports import WHOLE, SourceQuestion, SourceReport
from secmon.agents.sources.silent_list import SilentSource, read_silent
from secmon.agents.sources.source_watch import SourceWatch
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.config.silent_sources import SilentSourceSettings
from secmon.engine.sources.source_keeper import SourceKeeper
from secmon.engine.sources.source_table import Pauses
from secmon.journal.segments import segment_path
from tests.agents.rows import agent
from tests.manual_clock import ManualClock

STEP = 60
"""Seconds of a step; every living source sends one event in each."""
JOURNAL = 1 << 20
DAY = 86_400


class SimulatedNode:
    """The analysis of a node, with its own clock."""

    def __init__(self, root: Path, clock: ManualClock) -> None:
        self.paths, self.clock = Paths(root), clock
        self.paths.events.mkdir(parents=True)
        self.up = self.reporting = True
        self.behind = self.full = False
        self.here: set[int] = set()
        self.waiting: list[tuple[list[bytes], int]] = []
        self.start()

    def now(self) -> int:
        return int(self.clock.now().timestamp())

    def start(self) -> None:
        self.sources = SourceKeeper(self.paths, self.clock, self.presence, journal_limit=JOURNAL)
        self.sources.load()

    async def presence(self) -> Presence:
        return Presence(frozenset(), frozenset(self.here))

    def step(self, messages: list[bytes], registered: set[int]) -> None:
        """A step in which ``messages`` arrived."""
        if not self.full:
            self.waiting.append((messages, self.now()))
        segment = segment_path(self.paths.events, 1)
        segment.touch()
        with segment.open("ab") as file:
            file.truncate(JOURNAL if self.full else 0)
        self.sources.check()
        if not self.behind:
            for events, moment in self.waiting:
                self.sources.table.note(events, moment)
            self.waiting.clear()
            self.sources.observation.reached = self.now()
        self.sources.table.connected(registered, self.here, self.now())


class SimulatedCluster:
    """Two nodes, a master that may change, and agents that send from two locations each."""

    def __init__(self, root: Path, *, settings: SilentSourceSettings | None = None, agents_of_all: int = 3) -> None:
        shutil.rmtree(root, ignore_errors=True)
        self.root, self.clock = root, ManualClock()
        root.mkdir(parents=True)
        self.settings = settings or SilentSourceSettings()
        self.nodes = {name: SimulatedNode(root / name, ManualClock()) for name in ("alpha", "beta")}
        self.store = AgentStore(root / "agents.db")
        self.events: list[str] = []
        self.node_of = {number: "alpha" if number % 2 else "beta" for number in range(1, agents_of_all + 1)}
        self.mute: set[tuple[int, str]] = set()
        """Sources that send nothing."""
        self.away: set[int] = set()
        """Agents that are disconnected."""
        with self.store.write() as connection:
            connection.execute(insert(agents), [agent(number, group="default,web") for number in self.node_of])
        self.failure: SecmonError | None = None
        """What asking the nodes raises."""
        self.change_master()

    def learned(self, locations: Sequence[str] = ("/log/a", "/log/b"), pause: int = STEP) -> None:
        """As after a week: every source is regular."""
        for name, node in self.nodes.items():
            now = node.now()
            known = [
                Pauses(number, location, now - 7 * DAY, now, hours=100, longest=pause, earlier=[pause] * 6)
                for number, where in self.node_of.items()
                if where == name
                for location in (WHOLE, *locations)
            ]
            node.sources.table.restore(known, now)
            node.sources.save()

    def change_master(self) -> None:
        self.watch = SourceWatch(
            self.store, self.settings, self.gather, sink=self, paths=Paths(self.root), clock=self.clock,
            counters=Counters(),
        )  # fmt: skip

    async def gather(self, asked: Mapping[str, SourceQuestion], *, others: bool) -> Mapping[str, SourceReport]:
        if self.failure is not None:
            raise self.failure
        names = set(asked) | (set(self.nodes) if others else set())
        return {
            name: node.sources.answer(asked.get(name, SourceQuestion()))
            for name, node in self.nodes.items()
            if name in names and node.up and node.reporting
        }

    async def record(self, lines: Sequence[bytes]) -> int:
        self.events += [line.decode().partition("->secmon-monitord:")[2] or line.decode() for line in lines]
        return len(lines)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self._step()

    def _step(self) -> None:
        for clock in (self.clock, *(node.clock for node in self.nodes.values())):
            clock.advance(STEP)
        for name, node in self.nodes.items():
            connected = {number for number, where in self.node_of.items() if where == name and number not in self.away}
            node.here = connected if node.up else set()
            if not node.up:
                continue
            node.step(
                [
                    f"1:[{number:03}] (agent{number}) any->{place}:text".encode()
                    for number in sorted(connected)
                    for place in ("/log/a", "/log/b")
                    if (number, place) not in self.mute
                ],
                set(self.node_of),
            )
        self._keepalives()
        asyncio.run(self.watch.round())

    def _keepalives(self) -> None:
        now = int(self.clock.now().timestamp())
        with self.store.write() as connection:
            for number, where in self.node_of.items():
                if number not in self.away and self.nodes[where].up and self.nodes[where].reporting:
                    state = {"connection_status": "active", "last_keepalive": now, "node_name": where}
                else:
                    state = {"connection_status": "disconnected"} if number in self.away else {}
                if state:
                    connection.execute(update(agents).where(agents.c.id == number).values(**state))

    def restart(self, name: str, *, killed: bool) -> None:
        """The node starts again; killed: without its latest times."""
        node = self.nodes[name]
        if not killed:
            node.sources.save()
        node.waiting.clear()
        node.start()

    def set_clock(self, clock: ManualClock, seconds: float) -> None:
        clock.set_wall(clock.now() + timedelta(seconds=seconds))

    def listed(self) -> list[SilentSource]:
        return read_silent(Paths(self.root).silent_sources)
