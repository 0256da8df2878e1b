"""Missing keys of refused agents, published to the daemon that requests them (agent-link.md 2.5)."""

from secmon.agentlink.subscribers import Subscribers
from secmon.agents.link.wire import Answer, MissingKey
from secmon.common.clock import Clock

LONGEST = {"id": 8, "ip": 19}
"""Characters of a value; longer ones are ignored."""
REPEAT_SECONDS = 5.0
"""A missing key is published once in this time, however many messages lack it."""
MAX_RECENT = 4096
"""Keys that are remembered for that. With more of them, a key may be published earlier again."""


class MissingKeys:
    """Without subscribers nothing is done or counted."""

    def __init__(self, clock: Clock, subscribers: Subscribers) -> None:
        self._clock = clock
        self._subscribers = subscribers
        self._recent: dict[MissingKey, float] = {}
        self.handed = 0
        self.dropped = 0
        """Keys for which no subscriber had room."""

    def report(self, kind: str, value: str) -> None:
        """Publish that the key of the ``id`` or the ``ip`` is missing or likely wrong."""
        if not self._subscribers or len(value) > LONGEST[kind]:
            return
        missing = MissingKey("id" if kind == "id" else "ip", value)
        now = self._clock.monotonic()
        if self._recent.get(missing, now) > now:
            return
        if not self._subscribers.publish(Answer(wanted=missing)):
            self.dropped += 1
            return
        self.handed += 1
        self._remember(missing, now)

    def _remember(self, missing: MissingKey, now: float) -> None:
        recent = self._recent
        recent.pop(missing, None)  # so that the oldest stay in front
        recent[missing] = now + REPEAT_SECONDS
        while (oldest := next(iter(recent))) and (recent[oldest] <= now or len(recent) > MAX_RECENT):
            del recent[oldest]
