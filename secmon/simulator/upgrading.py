"""An upgrade of one agent: packages, the new version, reports until the server acknowledges (agent-link.md 10)."""

import re
from typing import Protocol

from secmon.simulator.dialect import Dialect
from secmon.simulator.fleet_state import FleetState
from secmon.simulator.misbehaviour import Behaviour
from secmon.simulator.options import Timing
from secmon.simulator.packages import Package, Packages
from secmon.simulator.timer_wheel import Timers

_VERSION = re.compile(r"v\d+\.\d+\.\d+")
_GROWTH = 12  # how far the pause between two reports grows


class Upgradable(Protocol):
    """The agent that is upgraded."""

    fleet: FleetState
    behaviour: Behaviour
    dialect: Dialect

    @property
    def timing(self) -> Timing: ...
    @property
    def connected(self) -> bool: ...
    def send(self, text: bytes) -> None: ...
    def become(self, dialect: Dialect) -> None:
        """Change the agent's version."""

    def unlock(self) -> None:
        """Allow automatic restarts again."""

    def restart(self) -> None: ...


class Upgrading:
    """State of an upgrade, which survives connections and restarts of the agent."""

    def __init__(self, agent: Upgradable) -> None:
        self._agent = agent
        self._timers = Timers(agent.fleet.wheel)
        self.packages = Packages(self._install, self._cleared)

    def started(self) -> None:
        """The process is connected: schedule the report of a result, if there is one."""
        if self.packages.result is not None:
            timing = self._agent.timing
            self._timers.set("report", timing.report, lambda: self._report(timing.report_again))

    def restart(self) -> None:
        """The process ends: open files are lost, a result is kept."""
        self._timers.cancel("report")
        self.packages.restart()

    def stop(self) -> None:
        self._timers.cancel_all()

    def _install(self, package: Package, installer: str) -> None:
        self._timers.set("install", self._agent.timing.install, lambda: self._installed(package))

    def _installed(self, package: Package) -> None:
        agent = self._agent
        version = _VERSION.search(package.name)
        if agent.behaviour.installs:
            agent.fleet.counters.upgrades += 1
            if version is not None:
                agent.become(Dialect.of(version[0]))
        if agent.dialect.upgrade_module:  # others have nothing that would report it
            self.packages.result = 0 if agent.behaviour.installs else 2
        agent.unlock()
        agent.restart()

    def _report(self, pause: float) -> None:
        if self.packages.result is None:
            return
        longest = _GROWTH * self._agent.timing.report_again
        self._timers.set("report", pause, lambda: self._report(min(2 * pause, longest)))
        if self._agent.connected:
            self._agent.send(self.packages.report())
            self._agent.fleet.counters.reports += 1

    def _cleared(self) -> None:
        self._agent.fleet.counters.clears += 1
        self._timers.cancel("report")
