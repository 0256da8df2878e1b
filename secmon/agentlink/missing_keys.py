"""Keys that refused agents lack: handed to those who can ask for them, without a wait (agent-link.md 2.5)."""

from secmon.agentlink.subscribers import Subscribers
from secmon.agents.link.wire import Answer, MissingKey
from secmon.common.clock import Clock

LONGEST = {"id": 8, "ip": 19}
"""Characters of a value that is asked for."""
REPEAT_SECONDS = 5.0
"""A key is wanted once in this time, however many messages lack it."""
MAX_RECENT = 4096
"""Keys that are remembered for that; who sends more than so many ids is asked for more often, and no worse."""


class MissingKeys:
    """Without a subscriber nothing is done or counted."""

    def __init__(self, clock: Clock, subscribers: Subscribers) -> None:
        self._clock = clock
        self._subscribers = subscribers
        self._recent: dict[MissingKey, float] = {}
        self.handed = 0
        self.dropped = 0
        """For want of room with the subscribers."""

    def report(self, kind: str, value: str) -> None:
        """A key is missing or likely wrong, for the ``id`` or the ``ip`` given."""
        if not self._subscribers or len(value) > LONGEST[kind]:
            return
        wanted = MissingKey("id" if kind == "id" else "ip", value)
        now = self._clock.monotonic()
        if self._recent.get(wanted, now) > now:
            return
        if not self._subscribers.publish(Answer(wanted=wanted)):
            self.dropped += 1
            return
        self.handed += 1
        self._remember(wanted, now)

    def _remember(self, wanted: MissingKey, now: float) -> None:
        recent = self._recent
        recent.pop(wanted, None)  # so that the oldest stay in front
        recent[wanted] = now + REPEAT_SECONDS
        while (oldest := next(iter(recent))) and (recent[oldest] <= now or len(recent) > MAX_RECENT):
            del recent[oldest]
