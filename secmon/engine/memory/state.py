"""What an engine remembers from one event to the next. Each session of logtest has its own (analysis-api.md 6.3)."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from secmon.engine.event import Event, Key, Memory
from secmon.engine.memory.accumulator import Accumulator
from secmon.engine.memory.seen import FirstTimes, LastContents, Muted

if TYPE_CHECKING:
    from secmon.engine.rules.rule import Rule

MEMORY = 8192
"""Events that composites can look back on."""


@dataclass
class State:
    """Counters and memories. ``composites``: for each composite by its id, the events that it can look back on."""

    contents: LastContents
    first_times: FirstTimes = field(default_factory=FirstTimes)
    muted: Muted = field(default_factory=Muted)
    accumulator: Accumulator = field(default_factory=Accumulator)
    memory: int = MEMORY
    fired: dict[int, int] = field(default_factory=dict)
    silent_since: dict[int, int] = field(default_factory=dict)
    recent: deque[Event] = field(default_factory=deque)
    composites: dict[int, Memory] = field(default_factory=dict)

    @classmethod
    def private(cls, diff_folder: Path) -> "State":
        """Of a session that starts with nothing and leaves nothing, but for ``check_diff``."""
        return cls(LastContents(diff_folder))

    def remember(self, event: Event, watchers: Iterable[tuple[int, Key]]) -> None:
        """Keep an event that was alerted on, for the composites that count it, each under a key of its own."""
        for composite, key in watchers:
            memory = self.composites.setdefault(composite, {})
            memory.setdefault(key, deque()).append(event)
            event.holders.append((memory, key))
        self.recent.append(event)
        if len(self.recent) > self.memory:
            self._forget()

    def _forget(self) -> None:
        """Drop the oldest, some at once. What is oldest of all is oldest in each memory that holds it."""
        for _ in range(max(10, self.memory // 32)):
            for memory, key in self.recent.popleft().holders:
                events = memory[key]
                events.popleft()
                if not events:
                    del memory[key]


class StateNeeded(Exception):
    """The rules cannot be asked any further ahead of time. ``way``: from the one that needs state up to its root."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.way: list[Rule] = []


class NoState:
    """Stands where a State would: to look at anything of it raises StateNeeded."""

    def __getattr__(self, name: str) -> NoReturn:
        raise StateNeeded(name)
