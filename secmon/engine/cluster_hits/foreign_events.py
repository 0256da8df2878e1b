"""Events of other nodes, as far as composites count them: bounded for each node, found by rule and key."""

from bisect import insort_right
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from secmon.cluster.rule_hits import Counted, Firing, Hit, Value

USED_UP = 99
"""Level of a mark that a rule has fired: above that of every rule, so that each search stops there."""

Key = tuple[Value, ...]


@dataclass(slots=True, eq=False)
class ForeignHit:
    """A hit of another node, shared by all composites that count it."""

    node: str
    identity: tuple[int, ...]
    rule_id: int
    agent: str
    used_by_level: int = 0
    events: "list[ForeignEvent]" = field(default_factory=list)


@dataclass(slots=True, eq=False)
class ForeignEvent:
    """A hit as one composite sees it. Has what :class:`secmon.engine.event.Event` has for its search.

    ``milliseconds`` and ``received`` (in seconds) are by the clock of this node.
    """

    hit: ForeignHit
    counted: Counted
    milliseconds: int
    occurrences: int

    @property
    def rule_id(self) -> int:
        return self.hit.rule_id

    @property
    def used_by_level(self) -> int:
        return self.hit.used_by_level

    @used_by_level.setter
    def used_by_level(self, level: int) -> None:
        self.hit.used_by_level = level

    @property
    def order(self) -> tuple[int, bool]:
        """By time; a mark follows the event that it is of."""
        return self.milliseconds, self.hit.used_by_level == USED_UP


class ForeignEvents:
    """The memory. For the analysis thread."""

    def __init__(self, size: int) -> None:
        """``size``: hits of each node that are kept."""
        self._size = size
        self._rules: dict[int, dict[Key, list[ForeignEvent]]] = {}
        self._nodes: dict[str, deque[ForeignHit]] = {}
        self._known: dict[str, set[tuple[int, ...]]] = {}

    def __len__(self) -> int:
        """Hits of all nodes."""
        return sum(map(len, self._nodes.values()))

    def add(self, node: str, hit: Hit, counted: Sequence[Counted], milliseconds: int) -> bool:
        """Remember a hit for these composites; False when it is known."""
        identity = (hit.journal, hit.number, hit.rule)
        made = ForeignHit(node, identity, hit.rule, hit.agent, hit.used)
        return self._keep(made, counted, milliseconds, hit.occurrences)

    def add_firing(self, node: str, firing: Firing, milliseconds: int) -> bool:
        """Mark where the search of a rule that has fired on another node ends; False when it is known."""
        identity = (firing.journal, firing.number, firing.counted.rule, 0)
        made = ForeignHit(node, identity, firing.rule, "", USED_UP)
        return self._keep(made, [firing.counted], milliseconds, 0)

    def newest_first(self, rule: int, key: Key) -> Iterator[ForeignEvent]:
        """What the composite ``rule`` counts under ``key``."""
        return reversed(self._rules[rule].get(key, ()))

    def has(self, rule: int) -> bool:
        """Whether there is anything that the composite ``rule`` counts."""
        return rule in self._rules

    def forget_rule(self, rule: int) -> None:
        """Drop what the composite ``rule`` counts: it is gone, or counts something else now."""
        self._rules.pop(rule, None)

    def _keep(self, hit: ForeignHit, counted: Sequence[Counted], milliseconds: int, occurrences: int) -> bool:
        known = self._known.setdefault(hit.node, set())
        if hit.identity in known:
            return False
        known.add(hit.identity)
        hits = self._nodes.setdefault(hit.node, deque())
        hits.append(hit)
        for one in counted:
            event = ForeignEvent(hit, one, milliseconds, occurrences)
            hit.events.append(event)
            insort_right(
                self._rules.setdefault(one.rule, {}).setdefault(one.key, []), event, key=lambda each: each.order
            )
        if len(hits) > self._size:
            self._forget(hits.popleft())
        return True

    def _forget(self, hit: ForeignHit) -> None:
        self._known[hit.node].discard(hit.identity)
        for event in hit.events:
            keys = self._rules.get(event.counted.rule, {})
            events = keys.get(event.counted.key, [])
            if event in events:  # near the front: the oldest are first
                events.remove(event)
            if not events:
                keys.pop(event.counted.key, None)
            if not keys:
                self._rules.pop(event.counted.rule, None)
