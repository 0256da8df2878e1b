"""What an engine remembers from one event to the next. Each session of logtest has its own (analysis-api.md 6.3)."""

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from secmon.engine.accumulator import Accumulator
from secmon.engine.event import Event
from secmon.engine.seen import FirstTimes, LastContents, Muted

MEMORY = 8192
"""Events that composites can look back on."""


@dataclass
class State:
    """Counters and memories. ``sids`` and ``groups`` hold the events that composites ask for, by the rule asked for,
    and by the composite that asks.
    """

    contents: LastContents
    first_times: FirstTimes = field(default_factory=FirstTimes)
    muted: Muted = field(default_factory=Muted)
    accumulator: Accumulator = field(default_factory=Accumulator)
    memory: int = MEMORY
    fired: dict[int, int] = field(default_factory=dict)
    silent_since: dict[int, int] = field(default_factory=dict)
    recent: deque[Event] = field(default_factory=deque)
    sids: dict[int, deque[Event]] = field(default_factory=dict)
    groups: dict[int, deque[Event]] = field(default_factory=dict)

    @classmethod
    def private(cls, diff_folder: Path) -> "State":
        """Of a session that starts with nothing and leaves nothing, but for ``check_diff``."""
        return cls(LastContents(diff_folder))

    def remember(self, event: Event, sid: int | None, groups: tuple[int, ...]) -> None:
        """Keep an event that was alerted on: for the rule ``sid``, or else for the composites ``groups``."""
        if sid is not None:
            self.sids.setdefault(sid, deque()).append(event)
        else:
            for composite in groups:
                self.groups.setdefault(composite, deque()).append(event)
        self.recent.append(event)
        if len(self.recent) > self.memory:
            self._forget()

    def _forget(self) -> None:
        """Drop the oldest, some at once; the other memories hold the same events in the same order."""
        for _ in range(max(10, self.memory // 32)):
            self.recent.popleft().forgotten = True
        for memories in (self.sids, self.groups):
            for one in memories.values():
                while one and one[0].forgotten:
                    one.popleft()
