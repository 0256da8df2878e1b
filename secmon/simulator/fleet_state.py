"""State that all agents of a fleet share."""

import asyncio
import ssl
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from secmon.common.clock import Clock
from secmon.simulator.concurrency import ConcurrencyLimit
from secmon.simulator.counters import Counters
from secmon.simulator.group_file import KnownFiles
from secmon.simulator.options import Options, Server
from secmon.simulator.timer_wheel import TimerWheel
from secmon.simulator.transport import Link

MAX_COMMANDS = 100_000


@dataclass(frozen=True, slots=True)
class Command:
    """A received command; ``kind`` is active-response, restart, reconnect, scan, sync or other."""

    agent: str
    kind: str
    name: str
    text: str


@dataclass(kw_only=True)
class FleetState:
    """One fleet's loop, timers, bounds and records."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    servers: tuple[Server, ...]
    options: Options
    tls: ssl.SSLContext
    counters: Counters
    wheel: TimerWheel
    connecting: ConcurrencyLimit
    enrolling: ConcurrencyLimit
    writing: ConcurrencyLimit
    random: Random
    known: KnownFiles = field(default_factory=KnownFiles)
    sums: "Counter[str]" = field(default_factory=Counter)
    """Connected agents by the sum of the group file in their last keepalive; ``x`` for none."""
    closing: set[Link] = field(default_factory=set)
    """Closed links that may still have bytes to send."""
    refusals: "Counter[str]" = field(default_factory=Counter)
    """Number of refused enrolments by the server's text."""
    failures: "Counter[str]" = field(default_factory=Counter)
    """Connections and enrolments that failed, by server and reason."""
    commands: "deque[Command]" = field(default_factory=lambda: deque(maxlen=MAX_COMMANDS))

    def in_thread(self, work: Callable[[], None]) -> None:
        """Do blocking work in a thread; its errors go to the loop's exception handler."""

        async def run() -> None:
            await self.loop.run_in_executor(None, work)

        self.writing.submit(run)
