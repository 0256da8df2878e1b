"""The reports of one agent on its host: scans, changes, synchronization (agent-data.md 2.5, 3 to 6)."""

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import datetime
from random import Random
from typing import Any, Literal, Protocol

import msgspec

from secmon.agents.wire.location import escape
from secmon.simulator.dialect import Dialect
from secmon.simulator.fleet_state import FleetState
from secmon.simulator.host.assessment import POLICY, Assessment
from secmon.simulator.host.files import WatchedFiles
from secmon.simulator.host.inventory import Inventory
from secmon.simulator.host.synchronized_table import Message, SynchronizedTable
from secmon.simulator.misbehaviour import Behaviour
from secmon.simulator.options import Timing
from secmon.simulator.profiles import Profile
from secmon.simulator.timer_wheel import Timers

SCANS = ("fim", "inventory", "sca", "rootcheck")
Scan = Literal["fim", "inventory", "sca", "rootcheck"]
_FINDINGS = (
    "File '/var/tmp/open' is owned by root and has written permissions to anyone.",
    "System Audit: SSH hardening: root may log in {PCI_DSS: 2.2.4}. File: /etc/ssh/sshd_config. Reference: 1 .",
)


class ReportingAgent(Protocol):
    """The agent that reports."""

    fleet: FleetState
    behaviour: Behaviour
    dialect: Dialect
    profile: Profile
    name: str

    @property
    def timing(self) -> Timing: ...
    @property
    def connected(self) -> bool: ...
    def now(self) -> datetime:
        """Time of the host's clock."""

    def report(self, text: bytes) -> bool:
        """Send a report; False when the connection takes no more now."""


class HostReports:
    """Reports what the options want. The tables survive connections and restarts of the agent."""

    def __init__(self, agent: ReportingAgent) -> None:
        options = agent.fleet.options
        random = Random(f"{options.seed}:{agent.name}:host")
        self._agent, self._random, self._scans = agent, random, options.scans
        self._timers = Timers(agent.fleet.wheel)
        self._waiting: deque[bytes] = deque()
        self._restarted = True
        self.inventory = (
            Inventory(agent.name, agent.profile, agent.dialect, random, agent.now, options.host_rows)
            if "inventory" in self._scans
            else None
        )
        self.files = WatchedFiles(agent.profile, random, agent.now, options.host_rows) if "fim" in self._scans else None
        self.assessment = Assessment(random, agent.now) if "sca" in self._scans else None
        self._tables = {table.component: table for table in self._synchronized()}
        self._backup = self.inventory.snapshot() if self.inventory is not None else {}

    @property
    def tables(self) -> Mapping[str, SynchronizedTable]:
        """The tables by component."""
        return self._tables

    @property
    def idle(self) -> bool:
        """Nothing waits to be sent."""
        return not self._waiting

    def connected(self) -> None:
        """Go on with the scans; the first one after a start of the process reports no changes."""
        if self._scans:
            self._timers.set("scan", self._agent.timing.first_scan, self._scan_due)
            self._drain()

    def lost(self) -> None:
        """The connection has ended: what waited for it is lost, as the agent's queue is with a restart."""
        self._timers.cancel_all()
        self._waiting.clear()

    def restarted(self) -> None:
        self._restarted = True

    def command(self, text: str) -> None:
        """Obey a command of the server: the text after ``#!-``."""
        first, _, rest = text.partition(" ")
        if text == "syscheck restart":
            self._scan_due()
        elif first.startswith("sca-dump:"):
            self._dump(first)
        elif rest.startswith("dbsync ") and first in self._tables:
            self._synchronize(self._tables[first], rest.removeprefix("dbsync "))

    def scan(self) -> None:
        """Scan, and report what has changed since the last scan; then synchronize all tables."""
        if self.files is not None:
            self._scan_files(self.files)
        if self.inventory is not None:
            for _ in range(0 if self._restarted else self._agent.fleet.options.host_changes):
                self._queue("d", "syscollector", self.inventory.change())
        if self.assessment is not None:
            self._queue("p", "sca", self.assessment.scan())
        if "rootcheck" in self._scans:
            texts = ("Starting rootcheck scan.", *_FINDINGS, "Ending rootcheck scan.")
            self._send(f"9:rootcheck:{text}".encode() for text in texts)
        self._restarted = False
        self.synchronize()

    def synchronize(self) -> None:
        """Start a round of all tables."""
        number = int(self._agent.now().timestamp())
        for table in self._tables.values():
            self._queue_synchronization(table, (table.begin(number),))

    def restore_backup(self) -> None:
        """Return to the packages, processes and so on of the first scan."""
        if self.inventory is not None:
            self.inventory.restore(self._backup)

    def _synchronized(self) -> Iterable[SynchronizedTable]:
        if self.files is not None:
            yield from self.files.tables
        if self.inventory is not None:
            yield from self.inventory.tables.values()

    def _scan_due(self) -> None:
        self._timers.set("scan", self._agent.timing.scan, self._scan_due)
        self._agent.behaviour.scanning(self)
        self.scan()

    def _scan_files(self, files: WatchedFiles) -> None:
        self._queue("8", "syscheck", (files.scan(begins=True),))
        for _ in range(0 if self._restarted else self._agent.fleet.options.host_changes):
            self._queue("8", "syscheck", (files.change(),))
        self._queue("8", "syscheck", (files.scan(begins=False),))

    def _dump(self, command: str) -> None:
        _, policy, flag = (*command.split(":"), "", "")[:3]
        if self.assessment is not None and policy == POLICY:
            self._queue("p", "sca", self.assessment.dump(first=flag == "1"))

    def _synchronize(self, table: SynchronizedTable, answer: str) -> None:
        command, _, text = answer.partition(" ")
        try:
            self._queue_synchronization(table, table.answer(command, msgspec.json.decode(text)))
        except (msgspec.DecodeError, KeyError, TypeError):
            self._agent.fleet.counters.errors += 1

    def _queue_synchronization(self, table: SynchronizedTable, messages: Iterable[Message]) -> None:
        self._queue("5", table.component if table.component.startswith("fim") else "syscollector", messages)

    def _queue(self, queue: str, location: str, bodies: Iterable[Mapping[str, Any]]) -> None:
        place = escape(location) if self._agent.dialect.escapes else location
        self._send(f"{queue}:{place}:".encode() + msgspec.json.encode(body) for body in bodies)

    def _send(self, texts: Iterable[bytes]) -> None:
        self._waiting.extend(self._agent.behaviour.reports(list(texts), self._random))
        if not self._timers.pending("reports"):
            self._drain()

    def _drain(self) -> None:
        """Send what waits, at most as many messages a second as an agent sends."""
        per_second = self._agent.fleet.options.reports_per_second
        for _ in range(max(1, per_second // 10)):
            if not self._waiting or not self._agent.connected or not self._agent.report(self._waiting[0]):
                break
            self._waiting.popleft()
        if self._waiting:
            self._timers.set("reports", 0.1, self._drain)
