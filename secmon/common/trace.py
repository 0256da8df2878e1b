"""What a request has spent its time on, noted where it is spent. Without a trace nothing is noted.

Steps may be parts of others: ``store`` is a part of ``function``.
"""

from contextvars import ContextVar
from time import perf_counter


class Trace:
    """The seconds that one request has spent, by node and step; the node asked has no name here.

    Threads of the request add to it too.
    """

    __slots__ = ("began", "seconds")

    def __init__(self) -> None:
        self.began = perf_counter()
        self.seconds: dict[tuple[str, str], float] = {}

    def add(self, step: str, seconds: float, node: str = "") -> None:
        """Add to what ``node``, this one by default, has spent on ``step``."""
        self.seconds[node, step] = self.seconds.get((node, step), 0.0) + seconds

    def elapsed(self) -> float:
        """Seconds since it began."""
        return perf_counter() - self.began


_trace: ContextVar[Trace | None] = ContextVar("trace", default=None)


def begin_trace() -> Trace:
    """Trace this task, and the tasks and threads that it starts, from here to its end."""
    trace = Trace()
    _trace.set(trace)
    return trace


def current_trace() -> Trace | None:
    """The trace of this task, if there is one."""
    return _trace.get()


class span:
    """``with span("store"):`` notes how long the block takes. ``node``: for which the time is spent; empty: ours."""

    __slots__ = ("_began", "_node", "_step", "_trace")

    def __init__(self, step: str, node: str = "") -> None:
        self._step, self._node = step, node

    def __enter__(self) -> None:
        self._trace = _trace.get()
        self._began = 0.0 if self._trace is None else perf_counter()

    def __exit__(self, *_: object) -> None:
        if self._trace is not None:
            self._trace.add(self._step, perf_counter() - self._began, self._node)
