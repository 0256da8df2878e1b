"""Answers that are given again while nothing has changed that they were made from."""

import threading
from collections import OrderedDict
from collections.abc import Hashable

import msgspec

from secmon.common.outcome import Outcome

CAPACITY_BYTES = 32 << 20
"""Of the texts of all answers that a process keeps."""
_OVERHEAD_BYTES = 2048


class Answers:
    """Outcomes as text (``Outcome.text``), the least recently used ones dropped. Safe to use from several threads."""

    def __init__(self, capacity: int = CAPACITY_BYTES) -> None:
        """``capacity`` in bytes; no answer takes more than a fourth of it."""
        self._capacity = capacity
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, tuple[Hashable, Outcome]] = OrderedDict()
        self.held = 0

    def find(self, question: Hashable, version: Hashable) -> Outcome | None:
        """The answer to ``question`` that was made from state of this ``version``; the caller may add failures."""
        with self._lock:
            known = self._known.get(question)
            if known is None or known[0] != version:
                return None
            self._known.move_to_end(question)
        return msgspec.structs.replace(known[1], failures=list(known[1].failures))

    def keep(self, question: Hashable, version: Hashable, answer: Outcome) -> None:
        """``version`` was read before the state that ``answer`` was made from."""
        size = _size(answer)
        if size > self._capacity // 4:
            return
        with self._lock:
            before = self._known.pop(question, None)
            self._known[question] = version, msgspec.structs.replace(answer, failures=list(answer.failures))
            self.held += size - (_size(before[1]) if before else 0)
            while self.held > self._capacity:
                _, (_, dropped) = self._known.popitem(last=False)
                self.held -= _size(dropped)


def _size(answer: Outcome) -> int:
    return len(answer.text) + _OVERHEAD_BYTES
