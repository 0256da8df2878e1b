"""Hits of this node that the others are to know of."""

import threading
from collections import Counter, deque
from collections.abc import Callable

from secmon.cluster.rule_hits import MAX_HITS, Counted, Firing, Hit, Hits

MAX_WAITING = 4 * MAX_HITS
"""Hits that wait for their turn."""


class OutgoingHits:
    """Filled by the analysis thread, emptied by the event loop."""

    def __init__(self, wake: Callable[[], object] = lambda: None) -> None:
        """``wake``: called in the analysis thread when there is something to take, and was not before."""
        self.wake = wake
        self.sent = 0
        """Hits taken."""
        self.dropped = 0
        """Hits that found no room."""
        self.superfluous = 0
        """Hits that can complete nothing, because as many alike wait already as their rules need."""
        self._lock = threading.Lock()
        self._hits: deque[Hit] = deque()
        self._firings: dict[tuple[object, ...], Firing] = {}
        """The latest of each rule and key, which says all."""
        self._alike: Counter[Counted] = Counter()
        """Of what waits: one address that floods must not use up the room of all others."""

    def add(self, hit: Hit, needed: dict[int, int]) -> None:
        """Report a hit. ``needed``: how many hits complete a rule, by its id."""
        with self._lock:
            if all(self._alike[one] >= needed[one.rule] for one in hit.counted):
                self.superfluous += 1
                return
            if len(self._hits) >= MAX_WAITING:
                self.dropped += 1
                return
            first = not (self._hits or self._firings)
            self._alike.update(hit.counted)
            self._hits.append(hit)
        if first:
            self.wake()

    def add_firing(self, firing: Firing) -> None:
        """Report a rule that has fired."""
        one = firing.counted
        key = (one.rule, one.key, one.contrast, one.distinct)
        with self._lock:
            if len(self._firings) >= MAX_HITS and key not in self._firings:
                self.dropped += 1
                return
            first = not (self._hits or self._firings)
            self._firings[key] = firing
        if first:
            self.wake()

    def take(self) -> Hits | None:
        """The next message; None when nothing waits."""
        with self._lock:
            hits = [self._hits.popleft() for _ in range(min(MAX_HITS, len(self._hits)))]
            firings, self._firings = [*self._firings.values()], {}
            if not self._hits:
                self._alike.clear()
        self.sent += len(hits)
        return Hits(hits=hits, firings=firings) if hits or firings else None
