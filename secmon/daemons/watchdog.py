"""Noticing a daemon that lives and does nothing: its control socket is asked again and again."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from secmon.common.clock import Clock, SystemClock
from secmon.config.options import InternalOptions
from secmon.daemons.control_sockets import answers

LATE = 1.5
"""Intervals that one look may take before this process itself counts as held up."""


@dataclass(frozen=True, kw_only=True)
class WatchSettings:
    """A daemon that answers none of ``misses`` questions, one each ``interval_seconds``, is taken for hung."""

    interval_seconds: float = 2.0
    misses: int = 8

    @classmethod
    def of(cls, options: InternalOptions) -> "WatchSettings | None":
        """What the internal options say; ``None``: daemons are not watched."""
        misses = options.get("daemons.watchdog_misses")
        return cls(interval_seconds=options.get("daemons.watchdog_ms") / 1000, misses=misses) if misses else None


class MissedAnswers:
    """Questions without an answer, counted in a row: the whole decision, without clocks and sockets.

    Questions are counted and not seconds, and only those that this process asked on time: after it was frozen itself,
    or the host was, the daemons get their full time again.
    """

    def __init__(self, settings: WatchSettings) -> None:
        self._settings = settings
        self._missed = 0

    def hung(self, answered: bool | None, took_seconds: float) -> bool:
        """Whether the daemon is hung after one more look of ``took_seconds``.

        ``answered`` is ``None`` when the socket has no listener. A hung daemon still listens: the socket was
        removed, and the daemon creates it again.
        """
        late = took_seconds > self._settings.interval_seconds * LATE
        self._missed = self._missed + 1 if answered is False and not late else 0
        return self._missed >= self._settings.misses


async def until_hung(socket: Path, settings: WatchSettings, clock: Clock | None = None) -> float:
    """Ask at ``socket`` for as long as the daemon answers; returns the seconds without an answer when it is hung."""
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
