"""Limits before anybody is asked who they are: requests per minute, failed logins (conventions.md 9)."""

from collections import OrderedDict
from dataclasses import dataclass

from secmon.common.clock import Clock
from secmon.common.errors import SecmonError

WINDOW_SECONDS = 60.0
EVENT_PATHS = frozenset(("/events", "/event"))
EVENT_REQUESTS = 30
"""Requests with events in a window; they count among all others too."""
MAX_ADDRESSES = 20_000


class RequestRate:
    """One fixed window for all clients: it starts with a request and lasts a minute (conventions.md 9.2)."""

    def __init__(self, limit: int, clock: Clock, *, code: int = 6001) -> None:
        """``limit`` 0 means none; ``code`` of the error above the limit."""
        self._limit = limit
        self._code = code
        self._clock = clock
        self._opened = float("-inf")
        self._count = 0

    def count(self) -> None:
        """Count one request, refused ones too. Raises the error above the limit, until the window ends."""
        if not self._limit:
            return
        now = self._clock.monotonic()
        if now - self._opened >= WINDOW_SECONDS:
            self._opened, self._count = now, 0
        self._count += 1
        if self._count > self._limit:
            raise SecmonError(self._code)


@dataclass(slots=True)
class _Series:
    """Failed logins of one address; ``first`` is a reading of the monotonic clock."""

    first: float
    attempts: int = 0


class FailedLogins:
    """Counts failed logins by address and blocks addresses with too many (conventions.md 9.1).

    A block ends ``block_seconds`` after the first failure of the series. At most ``capacity`` addresses are
    remembered, oldest series forgotten first, so that a client with many addresses cannot fill the memory.
    """

    def __init__(self, max_attempts: int, block_seconds: float, clock: Clock, *, capacity: int = MAX_ADDRESSES) -> None:
        self._max_attempts = max_attempts
        self._block_seconds = block_seconds
        self._clock = clock
        self._capacity = capacity
        # In the order of their first failures, so the oldest is always in front.
        self._series: OrderedDict[str, _Series] = OrderedDict()

    def __len__(self) -> int:
        return len(self._series)

    def check(self, address: str) -> None:
        """Raises 6000 when ``address`` is blocked."""
        if self._series:
            self._forget_old()
            series = self._series.get(address)
            if series is not None and series.attempts >= self._max_attempts:
                raise SecmonError(6000)

    def failed(self, address: str) -> None:
        """Count one failed login."""
        self._forget_old()
        series = self._series.get(address)
        if series is None:
            if len(self._series) >= self._capacity:
                self._series.popitem(last=False)
            series = self._series[address] = _Series(self._clock.monotonic())
        series.attempts += 1

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        while self._series:
            oldest = next(iter(self._series.values()))
            if now - oldest.first < self._block_seconds:
                return
            self._series.popitem(last=False)
