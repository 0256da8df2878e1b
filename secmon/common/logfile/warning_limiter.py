"""Warnings that peers can cause by their messages: their number in the log is bounded."""

import asyncio
import logging
from collections import Counter

from secmon.common.clock import Clock

WINDOW_SECONDS = 10.0
PER_WINDOW = 10
"""Warnings of one kind in a window that are logged; others are counted."""


class WarningLimiter:
    """Logs the first few warnings of each kind, and how many more there were."""

    def __init__(
        self,
        log: logging.Logger,
        clock: Clock,
        *,
        window_seconds: float = WINDOW_SECONDS,
        per_window: int = PER_WINDOW,
        level: int = logging.WARNING,
    ) -> None:
        """``per_window``: warnings of one kind in ``window_seconds`` that are logged, with ``level``."""
        self._log = log
        self._clock = clock
        self._window = window_seconds
        self._per_window = per_window
        self._level = level
        self._seen: Counter[str] = Counter()
        self._until = 0.0

    def warn(self, kind: str, text: str, *values: object) -> None:
        """``kind`` groups warnings for the bound; ``text`` and ``values`` are as for a logger."""
        self.tick()
        if not self._seen:
            self._until = self._clock.monotonic() + self._window
        self._seen[kind] += 1
        if self._seen[kind] <= self._per_window:
            self._log.log(self._level, text, *values)

    async def run(self) -> None:
        """Until cancelled: log the suppressed warnings of windows that have ended, even without another warning."""
        while True:
            await asyncio.sleep(self._window)
            self.tick()

    def tick(self) -> None:
        """Log the number of suppressed warnings if the window has ended."""
        if self._seen and self._clock.monotonic() >= self._until:
            self.flush()

    def flush(self) -> None:
        """Log the number of suppressed warnings."""
        for kind, count in self._seen.items():
            if count > self._per_window:
                self._log.log(self._level, "%s: %d more warnings like these", kind, count - self._per_window)
        self._seen.clear()
