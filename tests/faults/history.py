"""What clients asked of a cluster and what it answered. Times are those of the monotonic clock of this process."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto


class Outcome(Enum):
    """What the answer to a change says."""

    DONE = auto()
    NOT_DONE = auto()
    """Nothing was changed."""
    UNKNOWN = auto()
    """It may have happened, or may happen later."""


@dataclass(frozen=True)
class Write:
    """A change of the object ``key`` to ``value``; None: it was deleted. ``number``: the id that it was given."""

    key: str
    value: str | None
    begun: float
    ended: float
    outcome: Outcome
    number: str = ""


@dataclass(frozen=True)
class Read:
    """What ``node`` said of an object: its value, None if there is none; with ``other``, that it is not ``value``."""

    key: str
    node: str
    value: str | None
    begun: float
    ended: float
    other: bool = False
    final: bool = False
    """After the last fault, of a node whose copy agrees with the others."""


@dataclass(frozen=True)
class Refusal:
    """A change that is right was refused, as one of an object that is not there or that exists already."""

    key: str
    text: str
    begun: float
    ended: float


@dataclass(frozen=True)
class Position:
    """The revision of one store of a node."""

    node: str
    store: str
    revision: int


class Calm:
    """The periods without a fault: from when the cluster was seen whole until the next fault."""

    def __init__(self, periods: Iterable[tuple[float, float]] = ()) -> None:
        self._periods = list(periods)
        self._since: float | None = None

    def begin(self, at: float) -> None:
        if self._since is None:
            self._since = at

    def end(self, at: float) -> bool:
        """Whether it was calm until now."""
        if self._since is None:
            return False
        self._periods.append((self._since, at))
        self._since = None
        return True

    def covers(self, begun: float, ended: float) -> bool:
        return any(first <= begun and ended <= last for first, last in self._periods)


@dataclass
class History:
    """Filled by many threads. An object is changed by one client, one change after the other; none after an unknown."""

    writes: dict[str, list[Write]] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    positions: list[Position] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """What no fault explains."""
    calm: Calm = field(default_factory=Calm)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wrote(self, write: Write) -> None:
        with self._lock:
            self.writes.setdefault(write.key, []).append(write)

    def read(self, read: Read) -> None:
        with self._lock:
            self.reads.append(read)

    def refused(self, refusal: Refusal) -> None:
        with self._lock:
            self.refusals.append(refusal)

    def complain(self, text: str) -> None:
        with self._lock:
            self.wrong.append(text)

    def done(self) -> list[Write]:
        """Acknowledged changes in the order of their answers."""
        with self._lock:
            found = [write for writes in self.writes.values() for write in writes if write.outcome is Outcome.DONE]
        return sorted(found, key=lambda write: write.ended)

    def longest(self) -> float:
        """Seconds of the longest request."""
        with self._lock:
            asked: list[Read | Write] = [*self.reads, *(write for writes in self.writes.values() for write in writes)]
        return max((one.ended - one.begun for one in asked), default=0.0)

    def count(self, outcome: Outcome) -> int:
        with self._lock:
            return sum(write.outcome is outcome for writes in self.writes.values() for write in writes)
