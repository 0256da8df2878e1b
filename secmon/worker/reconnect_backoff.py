"""Pauses between attempts to join the master."""

import random


class ReconnectBackoff:
    """Exponential with full jitter: a random pause from ``low`` to a bound that doubles up to ``high`` seconds."""

    def __init__(self, low: float, high: float, rng: random.Random) -> None:
        self._low, self._high, self._rng = low, max(low, high), rng
        self._bound = low

    def next(self) -> float:
        """Seconds to wait before the next attempt."""
        self._bound = min(self._high, self._bound * 2)
        return self._rng.uniform(self._low, self._bound)

    def reset(self) -> None:
        """The last attempt was successful."""
        self._bound = self._low
