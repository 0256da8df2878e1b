"""What was read of local files, since the start and within a minute (manager.md 11.2)."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from secmon.common.clock import Clock

INTERVAL_SECONDS = 60.0
TARGET = "agent"
"""The one place where the lines go, by its public name: the analysis of this node."""


class _Read(NamedTuple):
    """Lines and bytes by path, at a moment (seconds since 1970)."""

    moment: float
    lines: Mapping[str, int]
    bytes: Mapping[str, int]


class LocalFileCounters:
    """Lines and bytes of each file. Use it on the event loop only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._start = self._before = self._latest = self._now()

    def add(self, path: str, lines: int, read: int) -> None:
        """``lines`` of ``path`` were stored, of ``read`` bytes; zeros for a file that is only followed."""
        self._end_interval()
        self._lines[path] += lines
        self._bytes[path] += read

    def report(self) -> dict[str, Any]:
        """The counters since the start, and those of the latest complete interval; before its end, of the first one.

        Lines are never dropped: while they cannot be stored, no more are read.
        """
        self._end_interval()
        now = self._now()
        first = self._before is self._latest
        return {"global": _span(self._start, now), "interval": _span(self._before, now if first else self._latest)}

    def _now(self) -> _Read:
        return _Read(self._clock.now().timestamp(), dict(self._lines), dict(self._bytes))

    def _end_interval(self) -> None:
        if self._clock.now().timestamp() - self._latest.moment >= INTERVAL_SECONDS:
            self._before, self._latest = self._latest, self._now()


def _span(start: _Read, end: _Read) -> dict[str, Any]:
    files = [
        {
            "location": path,
            "events": lines - start.lines.get(path, 0),
            "bytes": end.bytes[path] - start.bytes.get(path, 0),
            "targets": [{"name": TARGET, "drops": 0}],
        }
        for path, lines in end.lines.items()
    ]
    return {"start": start.moment, "end": end.moment, "files": files}
