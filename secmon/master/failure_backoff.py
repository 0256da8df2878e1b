"""Back-off for addresses whose proofs fail, so that they cannot fill the log or the memory of the master."""

from collections import OrderedDict

from secmon.common.clock import Clock

FREE_FAILURES = 5
MAX_PAUSE_SECONDS = 60.0
MAX_ADDRESSES = 1024


class FailureBackoff:
    """Counts failures per address, of the ``MAX_ADDRESSES`` that failed last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def failed(self, address: str) -> None:
        """Count a failure. From the sixth on, each starts a pause; pauses double up to a minute."""
        count = self._failures.pop(address, (0, 0.0))[0] + 1
        pause = min(2.0 ** min(count - FREE_FAILURES, 10), MAX_PAUSE_SECONDS) if count > FREE_FAILURES else 0.0
        self._failures[address] = count, self._clock.monotonic() + pause
        while len(self._failures) > MAX_ADDRESSES:
            self._failures.popitem(last=False)

    def paused(self, address: str) -> float:
        """Seconds for which failures of ``address`` are not logged; 0 when they are."""
        return max(0.0, self._failures.get(address, (0, 0.0))[1] - self._clock.monotonic())

    def succeeded(self, address: str) -> None:
        self._failures.pop(address, None)
