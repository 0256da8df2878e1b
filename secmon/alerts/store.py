"""The store of a node's alerts as its readers see it: questions over all partitions.

Everything blocks. Another process writes; what it has committed is seen by the next question.
"""

import heapq
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path

from msgspec import Struct

from secmon.alerts import document, generations
from secmon.alerts.conditions import AlertConditions
from secmon.alerts.index_query import IndexQuery, Query, after, among, before, both
from secmon.alerts.partition import Partition
from secmon.alerts.question import AlertQuestion
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError

log = logging.getLogger("secmon.alerts")

MAX_BYTES = 8 << 20
"""Of the alerts of one answer; a longer one is cut."""
MAX_KEYS = 50_000
"""Values that are counted in one answer; of more, the most frequent ones."""


AcknowledgedIds = Callable[[], Mapping[str, Iterable[str]]]
"""Ids of the acknowledged alerts, by agent. Blocks."""


class Found(Struct, frozen=True):
    """An alert: its place in the order, its number in the store, and its line."""

    order: int
    sequence: int
    line: bytes


class Place(Struct, frozen=True):
    """A place in the order of alerts: behind the alert at ``order``, or before it (``included``)."""

    order: int
    included: bool = False


class Page(Struct, frozen=True):
    """Alerts, how many meet the question in all, and whether there are more than these."""

    alerts: list[Found]
    total: int
    more: bool


class Counts(Struct, frozen=True):
    """How many alerts have each value. ``total``: alerts that meet the question.

    ``missing``: no value that is left out was counted more often; 0 when none is.
    """

    counts: dict[str, int]
    total: int
    missing: int = 0


class AlertStore:
    """The generation in use. Safe to use from several threads."""

    def __init__(self, folder: Path, clock: Clock, acknowledged: AcknowledgedIds = dict) -> None:
        """``clock``: of the deadlines of questions."""
        self.folder, self._clock, self._acknowledged = folder, clock, acknowledged
        self._lock = threading.Lock()
        self._open: dict[Path, Partition] = {}
        self._unreadable: set[Path] = set()

    def newest(
        self, question: AlertQuestion, limit: int, *, place: Place | None = None, deadline: float | None = None
    ) -> Page:
        """The newest alerts, newest first; behind ``place``, if it is given.

        ``deadline``: a reading of the monotonic clock. Raises SecmonError 1407 to 1409, 3021.
        """
        found: list[tuple[int, Partition, object]] = []
        total = 0
        behind = None if place is None else before(place.order, included=place.included)
        for partition, query in self._asked(question, deadline):
            total += partition.count(query)
            if len(found) > limit and _order_below(partition.span.last + 1) <= found[limit][0]:
                continue  # all of it is older than the page
            behind_it = query if behind is None else both(query, behind)
            hits = partition.searcher.search(behind_it, limit + 1, count=False, order_by_field=document.ORDER).hits
            found = heapq.nlargest(limit + 1, [*found, *((order, partition, at) for order, at in hits)], key=_first)
        alerts: list[Found] = []
        size = 0
        for order, partition, address in found[:limit]:
            one = _read(partition, order, address)
            size += len(one.line)
            if size > MAX_BYTES and alerts:
                break
            alerts.append(one)
        return Page(alerts, total, len(found) > len(alerts))

    def stored_after(
        self, question: AlertQuestion, sequence: int, limit: int, *, deadline: float | None = None
    ) -> tuple[list[Found], int]:
        """Alerts that were stored after the one with this number, as they were stored; where to go on.

        Raises as :meth:`newest` does.
        """
        found: list[Found] = []
        last = self.last_sequence()
        size = 0
        for partition, query in reversed(list(self._asked(question, deadline, from_sequence=sequence))):
            wanted = both(query, after(sequence))
            hits = partition.searcher.search(
                wanted, limit - len(found), count=False, order_by_field=document.SEQUENCE, order=document.ASCENDING
            ).hits
            for _, address in hits:
                one = _read(partition, 0, address)
                found.append(one)
                size += len(one.line)
                if len(found) == limit or size > MAX_BYTES:
                    return found, one.sequence
        return found, last

    def last_sequence(self) -> int:
        """Number of the newest alert; 0 without any."""
        return next((last[0] for one in self._partitions() if (last := one.last()) is not None), 0)

    def count_values(self, question: AlertQuestion, name: str, *, deadline: float | None = None) -> Counts:
        """How many alerts have each value of the field ``name``. Raises as :meth:`newest` does."""
        counts: Counter[str] = Counter()
        total = missing = 0
        prefix = f"{name}="
        for partition, query in self._asked(question, deadline):
            total += partition.count(query)
            found = partition.count_terms(prefix, query, MAX_KEYS + 1)
            if len(found) > MAX_KEYS:
                missing += found.pop()[1]
            for value, count in found:
                counts[value.removeprefix(prefix)] += count
        if len(counts) > MAX_KEYS:
            highest = sorted(counts.items(), key=itemgetter(1), reverse=True)
            missing += highest[MAX_KEYS][1]
            counts = Counter(dict(highest[:MAX_KEYS]))
        return Counts(dict(counts), total, missing)

    def histogram(self, question: AlertQuestion, step: int, *, deadline: float | None = None) -> dict[int, int]:
        """How many alerts there are in each ``step`` milliseconds, by their begin; steps without any are left out.

        Raises as :meth:`newest` does.
        """
        counts: Counter[int] = Counter()
        asked = {"times": {"histogram": {"field": document.TIME, "interval": float(step), "min_doc_count": 1}}}
        for partition, query in self._asked(question, deadline):
            for bucket in partition.searcher.aggregate(query, asked)["times"]["buckets"]:
                counts[int(bucket["key"])] += int(bucket["doc_count"])
        return dict(counts)

    def count(self, question: AlertQuestion, *, deadline: float | None = None) -> int:
        """How many alerts meet the question. Raises as :meth:`newest` does."""
        return sum(partition.count(query) for partition, query in self._asked(question, deadline))

    def size(self) -> int:
        """Bytes on the disk. Raises OSError."""
        generation = generations.current(self.folder)
        return sum(generations.size(generation / str(name)) for name in generations.partitions(generation))

    def _asked(
        self, question: AlertQuestion, deadline: float | None, *, from_sequence: int = 0
    ) -> Iterator[tuple[Partition, Query]]:
        """The partitions that are concerned, newest first, each with its query."""
        conditions = AlertConditions(question)
        wanted = question.acknowledged
        asked = IndexQuery(conditions, *([] if wanted is None else [among(self._acknowledged(), excluded=not wanted)]))
        for partition in self._partitions(from_sequence):
            if asked.concerns(partition):
                if deadline is not None and self._clock.monotonic() > deadline:
                    raise SecmonError(3021)
                yield partition, asked.of(partition)

    def _partitions(self, from_sequence: int = 0) -> list[Partition]:
        """Newest first, as of their last commits; from the one on that has the alert after ``from_sequence``."""
        generation = generations.current(self.folder)
        names = generations.partitions(generation)
        later = [name for name in names if name.first > from_sequence + 1]
        names = names[max(0, len(names) - len(later) - 1) :] if from_sequence else names
        with self._lock:
            known, self._open = self._open, {} if not from_sequence else dict(self._open)
            for name in names:
                path = generation / str(name)
                partition = self._refreshed(path, known.get(path))
                if partition is not None:
                    self._open[path] = partition
            return [self._open[path] for name in reversed(names) if (path := generation / str(name)) in self._open]

    def _refreshed(self, path: Path, known: Partition | None) -> Partition | None:
        """None for one that was just begun, or dropped; one that is damaged is named once."""
        try:
            found = Partition(path) if known is None else known.refreshed()
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            if path not in self._unreadable:
                self._unreadable.add(path)
                log.error("%s cannot be read; secmon alerts reindex builds the store again: %s", path, error)
            return None
        self._unreadable.discard(path)
        return found


def _read(partition: Partition, order: int, address: object) -> Found:
    made = partition.searcher.doc(address)  # type: ignore[arg-type]  # what its search has returned
    sequence = partition.searcher.fast_field_values(document.SEQUENCE, [address])[0]  # type: ignore[list-item]
    return Found(order, int(sequence or 0), bytes(made.get_first(document.SOURCE) or b""))


def _first(found: tuple[int, object, object]) -> int:
    return found[0]


def _order_below(milliseconds: int) -> int:
    """An order above those of all alerts before this time."""
    return document.order_of(milliseconds, 0)
