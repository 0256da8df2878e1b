"""The limit of events a second (``global.limits.eps``, ruleset.md 11)."""

from collections import deque


class EventRateLimit:
    """Credits that are spent by events and return ``timeframe`` seconds later."""

    def __init__(self, maximum: int, timeframe: int) -> None:
        """``maximum`` events a second, 0: no limit; ``timeframe`` in seconds."""
        self.limit = maximum * timeframe
        self.available = self.limit
        self.seconds_over = 0
        """Seconds in which events had to wait."""
        self._timeframe = timeframe
        self._spent: deque[tuple[int, int]] = deque()
        self._over = -1

    def take(self, wanted: int, now: float) -> int:
        """How many of ``wanted`` events may be analysed at ``now``, monotonic seconds."""
        if not self.limit:
            return wanted
        second = int(now)
        while self._spent and self._spent[0][0] <= second - self._timeframe:
            self.available += self._spent.popleft()[1]
        taken = min(wanted, self.available)
        self.available -= taken
        if taken and self._spent and self._spent[-1][0] == second:
            self._spent[-1] = (second, self._spent[-1][1] + taken)
        elif taken:
            self._spent.append((second, taken))
        if not taken and wanted and second != self._over:
            self._over = second
            self.seconds_over += 1
        return taken
