"""Failed logins by address (conventions.md 9.1): every node counts its own, and the master those of all nodes."""

from collections import OrderedDict
from dataclasses import dataclass

from secmon.common.accept.limiter import address_group
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError

MAX_ADDRESSES = 20_000


@dataclass(slots=True)
class _Series:
    """Failed logins of one address; ``first`` is a reading of the monotonic clock."""

    first: float
    attempts: int = 0


class FailedLogins:
    """Counts failed logins by address and blocks addresses with too many (conventions.md 9.1).

    IPv6 addresses are counted by their /64: a host can use all addresses of it.

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
            series = self._series.get(address_group(address))
            if series is not None and series.attempts >= self._max_attempts:
                raise SecmonError(6000)

    def failed(self, address: str, count: int = 1) -> None:
        """Count failed logins."""
        self._begun(address).attempts += count

    def series(self, address: str) -> tuple[int, float]:
        """Failed logins of ``address``, and how many seconds ago the first one was."""
        self._forget_old()
        series = self._series.get(address_group(address))
        return (series.attempts, self._clock.monotonic() - series.first) if series is not None else (0, 0.0)

    def learn(self, address: str, attempts: int, seconds: float) -> None:
        """Merge the count of all nodes: ``address`` has failed ``attempts`` times, first ``seconds`` ago.

        A block lasts from the first failure known here.
        """
        if seconds < self._block_seconds:
            series = self._begun(address)
            series.attempts = max(series.attempts, attempts)

    def _begun(self, address: str) -> _Series:
        self._forget_old()
        group = address_group(address)
        series = self._series.get(group)
        if series is None:
            if len(self._series) >= self._capacity:
                self._series.popitem(last=False)
            series = self._series[group] = _Series(self._clock.monotonic())
        return series

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        while self._series:
            oldest = next(iter(self._series.values()))
            if now - oldest.first < self._block_seconds:
                return
            self._series.popitem(last=False)
