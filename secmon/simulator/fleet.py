"""A fleet of agents on one event loop."""

import asyncio
import ssl
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from types import TracebackType

from secmon.agents.wire.keys import AgentKey
from secmon.common.clock import Clock, SystemClock
from secmon.simulator.agent import Agent
from secmon.simulator.concurrency import ConcurrencyLimit
from secmon.simulator.counters import Counters
from secmon.simulator.dialect import Dialect
from secmon.simulator.enrolment import trusting
from secmon.simulator.fleet_state import Command, FleetState
from secmon.simulator.key_folder import KeyFolder, SavedState
from secmon.simulator.misbehaviour import behaviour_of
from secmon.simulator.options import Misbehaviour, Options, Server
from secmon.simulator.profiles import PROFILES, Profile
from secmon.simulator.server_choice import ServerChoice
from secmon.simulator.timer_wheel import TimerWheel

_POLL = 0.01
_WRITING = 4
_CLOSE_SECONDS = 2.0  # that the last bytes may take to leave


class Fleet:
    """Agents that enrol, connect and stay connected until :meth:`stop`.

    Use it as an asynchronous context manager, or call :meth:`start` and :meth:`stop`. Everything happens on the event
    loop that started it; :attr:`counters`, :attr:`sums` and :attr:`commands` may be read at any time there.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        agents: int | Sequence[AgentKey],
        *,
        options: Options | None = None,
        prefix: str = "agent",
        first: int = 1,
        profiles: Sequence[Profile] = tuple(PROFILES.values()),
        spread: bool = True,
        keys: Path | None = None,
        tls: ssl.SSLContext | None = None,
        clock: Clock | None = None,
    ) -> None:
        """``agents`` is how many enrol, or the keys of agents that have enrolled.

        Enrolling agents are called ``prefix`` and a number from ``first`` on. With ``spread`` they begin at different
        servers, else all at the first. ``keys`` is a folder that keeps them: a fleet with the same folder and names is
        the same fleet again. Raises ValueError for options that make no sense.
        """
        self._servers, self._options = tuple(servers), options or Options()
        if not self._servers:
            raise ValueError("a fleet needs at least one server")
        self._wanted, self._prefix, self._first = agents, prefix, first
        self._profiles, self._spread = tuple(profiles), spread
        self._folder = KeyFolder(keys) if keys is not None else None
        self._tls, self._clock = tls or trusting(), clock or SystemClock()
        self._dialects = tuple(Dialect.of(version) for version in self._options.versions)
        self._state: FleetState | None = None
        self.agents: list[Agent] = []
        self.counters = Counters()

    # Observation

    @property
    def sums(self) -> "Counter[str]":
        """Connected agents by the sum in their last keepalive; ``x`` for those without a group file."""
        return self._running.sums

    @property
    def commands(self) -> "deque[Command]":
        """Commands of the server, the oldest first; the last 100,000."""
        return self._running.commands

    @property
    def not_connected(self) -> int:
        """Agents that behave and are not connected now."""
        bad = sum(self._options.misbehave.values())
        return sum(not agent.connected for agent in self.agents[: len(self.agents) - bad])

    @property
    def refusals(self) -> "Counter[str]":
        """Texts of refused enrolments, and their numbers."""
        return self._running.refusals

    @property
    def failures(self) -> "Counter[str]":
        """Connections and enrolments that failed, by server and reason."""
        return self._running.failures

    @property
    def held_keys(self) -> list[AgentKey]:
        """Keys of the agents that have one."""
        return [agent.key for agent in self.agents if agent.key is not None]

    async def until(self, condition: Callable[[Counters], object], *, seconds: float = 100.0, what: str = "") -> None:
        """Wait until ``condition`` of the counters is true. Raises TimeoutError with the counters."""
        end = self._running.loop.time() + seconds
        while not condition(self.counters):
            if self._running.loop.time() > end:
                raise TimeoutError(f"not within {seconds:g} s: {what or 'the condition'}; {self.counters}")
            await asyncio.sleep(_POLL)

    def set_rate(self, events_per_second: float) -> None:
        """Change the rate of events of each agent; 0 stops them."""
        self._options = self._running.options = replace(self._options, events_per_second=events_per_second)
        for agent in self.agents:
            agent.begin_events()

    def set_host_changes(self, changes: int) -> None:
        """Change how many files and rows of each host change from scan to scan."""
        self._options = self._running.options = replace(self._options, host_changes=changes)

    # Life

    async def start(self) -> None:
        """Create the agents and start them; returns at once."""
        loop, options = asyncio.get_running_loop(), self._options
        self._state = FleetState(
            loop=loop,
            clock=self._clock,
            servers=self._servers,
            options=options,
            tls=self._tls,
            counters=self.counters,
            wheel=TimerWheel(loop),
            connecting=ConcurrencyLimit(options.connecting),
            enrolling=ConcurrencyLimit(options.enrolling),
            writing=ConcurrencyLimit(_WRITING),
            random=Random(options.seed),
        )
        self.agents = self._make(self._state)
        for agent in self.agents:
            agent.start()

    async def stop(self, *, send_shutdown: bool | None = None) -> None:
        """Disconnect all agents and save the folder; ``send_shutdown`` overrules the option ``shutdown``."""
        fleet = self._running
        await fleet.enrolling.close()
        await fleet.connecting.close()
        for agent in self.agents:
            agent.stop(send_shutdown=self._options.shutdown if send_shutdown is None else send_shutdown)
        fleet.wheel.close()
        with suppress(TimeoutError):
            await self.until(lambda _: not fleet.closing, seconds=_CLOSE_SECONDS)
        for link in list(fleet.closing):
            link.abort()  # its server does not read
        await fleet.writing.close()
        self.save()

    def save(self) -> None:
        """Write keys and saved_states into the folder, if there is one; agents of other runs stay in it."""
        if self._folder is None:
            return
        keys, saved_states = self._folder.keys(), self._folder.saved_states()
        for agent in self.agents:
            if agent.key is not None:
                keys[agent.name], saved_states[agent.name] = agent.key, agent.saved_state
        self._folder.save(keys, saved_states)

    async def __aenter__(self) -> "Fleet":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def _running(self) -> FleetState:
        if self._state is None:
            raise RuntimeError("the fleet has not been started")
        return self._state

    # Making the agents

    def _make(self, fleet: FleetState) -> list[Agent]:
        stored: Mapping[str, AgentKey] = {}
        saved_states: Mapping[str, SavedState] = {}
        if self._folder is not None:
            stored, saved_states = self._folder.keys(), self._folder.saved_states()
        if isinstance(self._wanted, int):
            names = [f"{self._prefix}-{number:05d}" for number in range(self._first, self._first + self._wanted)]
        else:
            names = [key.name for key in self._wanted]
            stored = {**stored, **{key.name: key for key in self._wanted}}
        kinds = self._misbehaviours(len(names))
        return [
            self._agent(fleet, number, name, kind, stored.get(name), saved_states.get(name))
            for number, (name, kind) in enumerate(zip(names, kinds, strict=True))
        ]

    def _misbehaviours(self, agents: int) -> list[Misbehaviour | None]:
        """One for each agent; the bad ones come last."""
        bad = [kind for kind, count in self._options.misbehave.items() for _ in range(count)]
        if len(bad) > agents:
            raise ValueError(f"{len(bad)} agents cannot misbehave where there are {agents}")
        return [*[None] * (agents - len(bad)), *bad]

    def _agent(
        self,
        fleet: FleetState,
        number: int,
        name: str,
        kind: Misbehaviour | None,
        key: AgentKey | None,
        saved_state: SavedState | None,
    ) -> Agent:
        options = self._options
        server_choice = ServerChoice(
            self._servers,
            number if self._spread else 0,
            max_retries=options.timing.max_retries,
            reenrol=options.reenrol,
        )
        return Agent(
            fleet,
            name,
            profile=self._profiles[number % len(self._profiles)],
            dialect=self._dialects[number % len(self._dialects)],
            behaviour=behaviour_of(kind),
            server_choice=server_choice,
            key=key,
            saved_state=saved_state,
        )
