"""Whether a node sees all that its agents send, in time: otherwise the silence of a source proves nothing."""

from secmon.common.clock import Clock

LAG_SECONDS = 60
"""How far the analysis may be behind the journals."""
JUMP_SECONDS = 10
"""By how much the clock may be corrected between two checks."""


class Observation:
    """``reached``: everything received before this second is analysed; ``since``: and was in time, since this second.

    The analysis thread sets ``reached``; another thread checks.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.reached = self.since = self.epoch = self.now()
        self._checked = (self.now(), clock.monotonic())
        self.jumped = 0
        """How often the clock was set."""

    def now(self) -> int:
        return int(self._clock.now().timestamp())

    def check(self, *, refusing: bool) -> bool:
        """Begin again if the analysis is behind, if the journal has no room (``refusing``), or if the clock was set.

        Whether it was set back.
        """
        before, ticks = self._checked
        now, self._checked = self.now(), (self.now(), self._clock.monotonic())
        jump = now - before - (self._checked[1] - ticks)
        if abs(jump) > JUMP_SECONDS:
            self.jumped += 1
            self.reached, self.epoch = min(self.reached, now), now
        if refusing or abs(jump) > JUMP_SECONDS or now - self.reached > LAG_SECONDS:
            self.since = now
        return jump < -JUMP_SECONDS
