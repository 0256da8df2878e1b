"""The one clock. Everything that reads time takes a :class:`Clock`, so that tests can set it."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for dates that people and peers see, monotonic time for durations."""

    def now(self) -> datetime:
        """Current instant, time zone UTC."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; the same for every process of this host."""

    def boottime(self) -> float:
        """Seconds since the start of this host, suspended time included. It cannot be set."""


class SystemClock:
    """The host's clock."""

    def now(self) -> datetime:
        return datetime.fromtimestamp(time.time(), UTC)  # noqa: TID251 - the one place

    def monotonic(self) -> float:
        return time.monotonic()

    def boottime(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)


def iso_z(moment: datetime) -> str:
    """``YYYY-MM-DDTHH:MM:SSZ`` (conventions.md 13.3)."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def iso_micro(moment: datetime) -> str:
    """``YYYY-MM-DDTHH:MM:SS.ffffffZ``, always six digits (conventions.md 13.3)."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class ClockJumps:
    """Notices that the wall clock was set, or that the host was suspended: times of before do not compare with it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = self._readings()

    def seconds(self) -> float:
        """How far the wall clock has moved since the last call beyond the time that has passed; below 0: back."""
        before, self._last = self._last, self._readings()
        return (self._last[0] - before[0]) - (self._last[1] - before[1])

    def _readings(self) -> tuple[float, float]:
        return self._clock.now().timestamp(), self._clock.monotonic()
