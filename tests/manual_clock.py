"""A clock that tests set."""

from datetime import UTC, datetime, timedelta


class ManualClock:
    """A clock that moves only on request; for tests."""

    def __init__(self, now: datetime | None = None) -> None:
        self._now = now or datetime(2026, 1, 1, tzinfo=UTC)
        self._monotonic = 1000.0
        self._suspended = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def boottime(self) -> float:
        return self._monotonic + self._suspended

    def advance(self, seconds: float) -> None:
        """Move all readings forward by ``seconds``."""
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds

    def suspend(self, seconds: float) -> None:
        """As when the host sleeps: monotonic time does not advance."""
        self._now += timedelta(seconds=seconds)
        self._suspended += seconds

    def set_wall(self, now: datetime) -> None:
        """As when the host's clock is set."""
        self._now = now
