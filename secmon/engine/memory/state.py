"""What an engine keeps from one event to the next. Each session of logtest has its own (analysis-api.md 6.3)."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from secmon.engine.event import CompositeKey, CompositeMemory, Contrast, Event
from secmon.engine.memory.accumulator import Accumulator
from secmon.engine.memory.check_diff import LastContents
from secmon.engine.memory.fts import FirstTimeKeys, IgnoredKeys

if TYPE_CHECKING:
    from secmon.engine.cluster_hits.cluster_memory import ClusterMemory
    from secmon.engine.rules.rule import Rule

MEMORY_SIZE = 8192
"""Events that composites can look back on (``memory_size``)."""


@dataclass
class State:
    """``fired`` and ``ignored_since`` by rule id; ``composites``: the memory of each composite by its rule id.

    An event that was alerted on is in ``recent`` once and in the memory of each composite that counts it; ``memories``
    of the event names them, so that both forget it together.
    """

    contents: LastContents
    first_time_keys: FirstTimeKeys = field(default_factory=FirstTimeKeys)
    ignored_keys: IgnoredKeys = field(default_factory=IgnoredKeys)
    accumulator: Accumulator = field(default_factory=Accumulator)
    memory_size: int = MEMORY_SIZE
    fired: dict[int, int] = field(default_factory=dict)
    ignored_since: dict[int, int] = field(default_factory=dict)
    recent: deque[Event] = field(default_factory=deque)
    composites: dict[int, CompositeMemory] = field(default_factory=dict)
    cluster: "ClusterMemory | None" = None
    """Of a node of a cluster; log tests know nothing of other nodes."""

    @classmethod
    def private(cls, diff_folder: Path) -> "State":
        """Of a session: it starts empty, and only ``check_diff`` writes files."""
        return cls(LastContents(diff_folder))

    def remember(self, event: Event, composites: Iterable[tuple[int, CompositeKey, Contrast]]) -> None:
        """Keep an event that was alerted on, for the composites that count it, each under a key of its own.

        Events that follow each other with the same values of ``different`` fields are one run, which a search passes at
        once: otherwise each of many alike, as in a flood from one address, is compared with all before it.
        """
        for composite, key, contrast in composites:
            memory = self.composites.setdefault(composite, {})
            runs = memory.setdefault(key, deque())
            if runs and runs[-1][0] == contrast:
                runs[-1][1].append(event)
            else:
                runs.append((contrast, [event]))
            event.memories.append((memory, key))
        self.recent.append(event)
        if len(self.recent) > self.memory_size:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Drop a batch of the oldest events: the oldest of all is also the first in each memory that holds it."""
        for _ in range(max(10, self.memory_size // 32)):
            for memory, key in self.recent.popleft().memories:
                runs = memory[key]
                del runs[0][1][0]
                if not runs[0][1]:
                    runs.popleft()
                if not runs:
                    del memory[key]


class StateNeeded(Exception):
    """A rule cannot be evaluated without state. ``path``: from that rule up to its root."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.path: list[Rule] = []


class NoState:
    """In the place of a State in decoder processes: each access raises StateNeeded."""

    def __getattr__(self, name: str) -> NoReturn:
        raise StateNeeded(name)
