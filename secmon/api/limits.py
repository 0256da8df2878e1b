"""Limits of requests per minute, before anybody is asked who they are (conventions.md 9.2)."""

from secmon.common.clock import Clock
from secmon.common.errors import SecmonError

WINDOW_SECONDS = 60.0
EVENT_PATHS = frozenset(("/events", "/event"))
EVENT_REQUESTS = 30
"""Requests with events in a window; they count among all others too."""


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
