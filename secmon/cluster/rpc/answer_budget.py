"""How much memory the answers of one node may take at the node that asked.

One answer is bounded (``wire``), and so are the calls that are in flight to a node (``fan_out``). Together, answers at
their limit would still take gigabytes. So all of one node share a budget, each until nothing refers to it any more. An
answer that finds no room is refused; those of other nodes are not affected. Small answers are not counted.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.outcome import Result

MAX_NODE_BYTES = 128 * 1024 * 1024
"""Of all answers of one node that are held: two of the largest."""
MAX_NODE_OBJECTS = 9_000_000
"""Python objects of these answers, about 750 MB: one of the largest, and some beside."""


class AnswerBudget:
    """The room for the answers of one node."""

    def __init__(self, refused: Callable[[], None] = lambda: None) -> None:
        """``refused`` is called for each answer that finds no room."""
        self._refused = refused
        self.bytes = self.objects = 0
        """Of the answers that are held."""

    @contextmanager
    def share(self) -> Iterator["Share"]:
        """The share of one answer, which is given back at the end unless a result keeps it."""
        share = Share(self)
        try:
            yield share
        finally:
            if not share.kept:
                share.release()

    def take(self, size: int, objects: int) -> None:
        """Raises 3036, and takes nothing, when there is no room."""
        if self.bytes + size > MAX_NODE_BYTES or self.objects + objects > MAX_NODE_OBJECTS:
            self._refused()
            raise SecmonError(3036, "other answers of the node take the memory that it may use here; try again later")
        self.bytes += size
        self.objects += objects


class Share:
    """What one answer has taken of a budget."""

    def __init__(self, budget: AnswerBudget) -> None:
        self._budget = budget
        self._bytes = self._objects = 0
        self.kept = False

    def add(self, size: int, objects: int) -> None:
        """Raises 3036 when the budget has no room."""
        self._budget.take(size, objects)
        self._bytes += size
        self._objects += objects

    def kept_by(self, result: Result) -> Result:
        """``result``; the share is given back when nothing refers to it any more."""
        if self._bytes:
            self.kept = True
            weakref.finalize(result, self.release).atexit = False
        return result

    def release(self) -> None:
        self._budget.bytes -= self._bytes
        self._budget.objects -= self._objects
        self._bytes = self._objects = 0


class AnswerBudgets:
    """The budgets of all nodes, by name."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._nodes: dict[str, AnswerBudget] = {}

    def of(self, node: str) -> AnswerBudget:
        """That of ``node``; names are those of members."""
        return self._nodes.setdefault(node, AnswerBudget(self._count_refused))

    def _count_refused(self) -> None:
        self._counters.add("cluster.answers_refused")
