"""How long to wait before a daemon, or a task of one, that has ended is started again."""


class Backoff:
    """At once first, then 0.5, 1, 2, ... up to 30 s; forgotten after a minute of health.

    An address that is in use is tried at a steady, short pause: a connection may hold the port for a moment only.
    Times are monotonic seconds.
    """

    FIRST = 0.5
    LONGEST = 30.0
    HEALTHY = 60.0
    IN_USE = 1.0
    PERSISTENT = 4
    """Failures in a row after which what has failed will not be back soon."""

    def __init__(self) -> None:
        self._failures = self._in_a_row = 0
        self._started: float | None = None
        self._in_use = False

    def in_use(self) -> None:
        """The daemon could not start because an address is in use."""
        self._in_use = True

    @property
    def persistent(self) -> bool:
        """Whether it has failed so often that it will not be back soon."""
        return self._in_a_row >= self.PERSISTENT

    def started(self, now: float) -> None:
        """The daemon has become ready."""
        self._started = now

    def ended(self, now: float) -> float:
        """The daemon has ended or could not start; seconds to wait before the next attempt."""
        if self._started is not None and now - self._started >= self.HEALTHY:
            self._failures = self._in_a_row = 0
        self._started = None
        self._in_a_row += 1
        if self._in_use:
            self._in_use = False
            return self.IN_USE
        self._failures += 1
        if self._failures == 1:
            return 0.0
        return float(min(self.LONGEST, self.FIRST * 2 ** min(self._failures - 2, 10)))
