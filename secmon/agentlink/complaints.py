"""Warnings that peers cause: what they can make the log hold is bounded."""

import asyncio
import logging
from collections import Counter

from secmon.common.clock import Clock

WINDOW_SECONDS = 10.0
PER_WINDOW = 10
"""Warnings of one kind in a window; the rest is counted."""


class Complaints:
    """Logs the first few warnings of each kind, and how many more there were."""

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._seen: Counter[str] = Counter()
        self._until = 0.0

    def warn(self, kind: str, text: str, *values: object) -> None:
        """``kind`` groups warnings for the bound; ``text`` and ``values`` are as for a logger."""
        now = self._clock.monotonic()
        if now >= self._until:
            self.flush()
            self._until = now + WINDOW_SECONDS
        self._seen[kind] += 1
        if self._seen[kind] <= PER_WINDOW:
            self._log.warning(text, *values)

    async def run(self) -> None:
        """Say for ever what was left unsaid in windows that are over, even if no other warning comes."""
        while True:
            await asyncio.sleep(WINDOW_SECONDS)
            if self._clock.monotonic() >= self._until:
                self.flush()

    def flush(self) -> None:
        """Say what was left unsaid."""
        for kind, count in self._seen.items():
            if count > PER_WINDOW:
                self._log.warning("%s: %d more warnings like these", kind, count - PER_WINDOW)
        self._seen.clear()
