"""What a drill has found, as a table."""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.faults.history import History, Outcome


@dataclass(frozen=True)
class Done:
    """A fault that took place at ``node`` or at its database. Times as in the history."""

    kind: str
    node: str
    begun: float
    ended: float


@dataclass
class Report:
    history: History
    faults: list[Done] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    ended: float = 0.0
    """When the clients stopped."""

    def without_change(self) -> list[tuple[Done, float]]:
        """Each fault, and the longest time in seconds until the next one in which no change was acknowledged."""
        answered = [write.ended for write in self.history.done()]
        ends = [*(fault.begun for fault in self.faults[1:]), self.ended or time.monotonic()]
        return [(fault, longest_gap(answered, fault.begun, end)) for fault, end in zip(self.faults, ends, strict=True)]

    def last_line(self) -> str:
        """The last fault, and the counts so far."""
        fault, gap = self.without_change()[-1]
        changes, unknown = self.history.count(Outcome.DONE), self.history.count(Outcome.UNKNOWN)
        return (
            f"{len(self.faults):4}  {fault.kind} ({fault.node}) for {fault.ended - fault.begun:.1f} s: "
            f"{gap:.1f} s without a change; {changes} changes, {unknown} unknown, {len(self.history.reads)} reads"
        )

    def table(self) -> Iterator[str]:
        """Lines: faults by kind, how long nothing was changed, and what the clients did."""
        by_kind: dict[str, list[float]] = defaultdict(list)
        for fault, gap in self.without_change():
            by_kind[fault.kind].append(gap)
        yield f"{'fault':34}{'number':>8}   seconds without a change: {'p50':>6}{'p99':>8}{'max':>8}"
        for kind, gaps in [*sorted(by_kind.items()), ("all", [gap for _, gap in self.without_change()])]:
            figures = "".join(f"{quantile(gaps, share):8.1f}" for share in (0.5, 0.99, 1.0))
            yield f"{kind:34}{len(gaps):8}{'':26}{figures}"
        history = self.history
        counted = ", ".join(f"{history.count(outcome)} {outcome.name.lower()}" for outcome in Outcome)
        yield f"changes by their outcome: {counted}; reads: {len(history.reads)}; violations: {len(self.violations)}"


def longest_gap(times: Sequence[float], begun: float, ended: float) -> float:
    """Longest time without one of ``times``, which are sorted, between the last before ``begun`` and ``ended``."""
    first = max((number for number, at in enumerate(times) if at <= begun), default=0)
    inside = [at for at in times[first:] if at <= ended]
    return max((after - before for before, after in pairwise([*inside, ended])), default=ended - begun)


def quantile(values: Sequence[float], share: float) -> float:
    """Nearest rank."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0
