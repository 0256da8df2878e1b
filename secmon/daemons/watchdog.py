"""Detects a daemon that runs but hangs: its control socket is called at a steady interval."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from secmon.common.clock import Clock, SystemClock
from secmon.config.options import InternalOptions
from secmon.daemons.control_sockets import answers

LATE = 1.5
"""Intervals that one check may take before this process itself counts as delayed."""


@dataclass(frozen=True, kw_only=True)
class WatchSettings:
    """A daemon that answers none of ``misses`` checks, one each ``interval_seconds``, counts as hung."""

    interval_seconds: float = 2.0
    misses: int = 8

    @classmethod
    def of(cls, options: InternalOptions) -> "WatchSettings | None":
        """The settings of the internal options; ``None``: daemons are not watched."""
        misses = options.get("daemons.watchdog_misses")
        return cls(interval_seconds=options.get("daemons.watchdog_ms") / 1000, misses=misses) if misses else None


class MissedAnswers:
    """Counts consecutive checks without an answer: the decision, without clocks and sockets.

    Checks are counted instead of seconds, and only those that were on time: after this process or the host was frozen,
    the daemons get their full time again.
    """

    def __init__(self, settings: WatchSettings) -> None:
        self._settings = settings
        self._missed = 0

    def hung(self, answered: bool | None, took_seconds: float) -> bool:
        """Whether the daemon is hung after one more check of ``took_seconds``.

        ``answered`` is ``None`` when no process listens at the socket. A hung daemon listens without answering; without
        a listener the socket was removed, and the daemon creates it again.
        """
        late = took_seconds > self._settings.interval_seconds * LATE
        self._missed = self._missed + 1 if answered is False and not late else 0
        return self._missed >= self._settings.misses


async def until_hung(socket: Path, settings: WatchSettings, clock: Clock | None = None) -> float:
    """Call ``socket`` as long as the daemon answers; returns the seconds without an answer when it hangs."""
    clock = clock or SystemClock()
    missed = MissedAnswers(settings)
    heard = clock.monotonic()
    while True:
        began = clock.monotonic()
        answered = await answers(socket, settings.interval_seconds)
        heard = clock.monotonic() if answered else heard
        await asyncio.sleep(max(0.0, settings.interval_seconds - (clock.monotonic() - began)))
        if missed.hung(answered, clock.monotonic() - began):
            return clock.monotonic() - heard
