"""Counters for everything that can queue, drop or fail."""

from collections import Counter


class Counters:
    """Named numbers of one process: monotonic counts and current gauges. Read by the daemon's control socket."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._gauges: dict[str, float] = {}

    def add(self, name: str, amount: int = 1) -> None:
        """Count ``amount`` more of ``name`` (dotted, e.g. ``api.requests.refused``)."""
        self._counts[name] += amount

    def set(self, name: str, value: float) -> None:
        """Set the gauge ``name``."""
        self._gauges[name] = value

    def snapshot(self) -> dict[str, float]:
        """All counters and gauges, sorted by name."""
        return dict(sorted({**self._counts, **self._gauges}.items()))
