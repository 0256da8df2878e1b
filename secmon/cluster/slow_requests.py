"""The slow requests of the clients of one process, and what they have spent their time on."""

import threading
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from secmon.common.clock import Clock
from secmon.common.trace import Trace

CAPACITY = 200
"""Requests that are remembered, at about a kilobyte each."""
KEPT = timedelta(hours=1)
"""Older requests make room first."""
MAX_SPENT = 24
"""Steps of a request that are remembered: the longest."""
SHOWN_SECONDS = 0.001
"""Steps that took less are left out."""


class Spent(msgspec.Struct, frozen=True):
    """What a node has spent on a step, in seconds."""

    node: str
    step: str
    seconds: float


class SlowRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose answer was late. ``time``: when it was made; ``seconds``: since the request was there.

    Nothing in it is secret: neither parameters nor body. ``spent`` has the longest first.
    """

    time: datetime
    id: str
    seconds: float
    operation: str
    method: str
    path: str
    status: int
    user: str
    client: str
    node: str
    spent: Sequence[Spent]

    @property
    def shares(self) -> str:
        """What each node has spent, for logs and tables: ``m1: function 1.200, store 1.150; w1: handover 0.010``."""
        by_node: dict[str, list[str]] = {}
        for each in self.spent:
            by_node.setdefault(each.node, []).append(f"{each.step} {each.seconds:.3f}")
        return "; ".join(f"{node}: {', '.join(steps)}" for node, steps in by_node.items())


def spent_by(trace: Trace, node: str) -> list[Spent]:
    """The longest steps of ``trace``, which was made on ``node``."""
    sums: dict[tuple[str, str], float] = {}
    for (where, step), seconds in list(trace.seconds.items()):
        sums[where or node, step] = sums.get((where or node, step), 0.0) + seconds
    longest = sorted(sums.items(), key=lambda each: -each[1])[:MAX_SPENT]
    return [Spent(where, step, round(each, 6)) for (where, step), each in longest if each >= SHOWN_SECONDS]


class SlowRequests:
    """The slowest requests of the last hour, and earlier ones while there is room."""

    def __init__(self, threshold_seconds: float, clock: Clock) -> None:
        """``threshold_seconds``: what a request may take; 0: none is remembered."""
        self.threshold_seconds = threshold_seconds
        self._clock = clock
        self._requests: list[SlowRequest] = []
        self._lock = threading.Lock()

    def add(self, request: SlowRequest) -> None:
        """Remember it. Without room the oldest goes, unless all are recent: then the quickest."""
        with self._lock:
            self._requests.append(request)
            if len(self._requests) > CAPACITY:
                old = min(self._requests, key=lambda each: each.time)
                quick = min(self._requests, key=lambda each: each.seconds)
                self._requests.remove(old if old.time < self._clock.now() - KEPT else quick)

    def worst(self, *, since: timedelta, limit: int) -> list[SlowRequest]:
        """The slowest ``limit`` of the last time ``since``, the slowest first."""
        begin = self._clock.now() - since
        with self._lock:
            found = [each for each in self._requests if each.time >= begin]
        return sorted(found, key=lambda each: -each.seconds)[:limit]
