"""What composites that are counted over the cluster know of other nodes, and report to them.

The analysis thread owns it. Other threads call :meth:`arrived`, and take from ``outgoing``.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from secmon.cluster.rule_hits import MAX_COUNTED, MAX_OCCURRENCES, Counted, Firing, Hit, HitsOf, short_value
from secmon.engine.cluster_hits.foreign_events import ForeignEvent, ForeignEvents
from secmon.engine.cluster_hits.outgoing_hits import OutgoingHits
from secmon.engine.event import MANAGER_ID, Event
from secmon.engine.rules.rule import Composite, Rule

MAX_ARRIVED = 256
"""Messages of other nodes that wait for the analysis thread."""
CLOCK_MILLISECONDS = 5000
"""Differences between clocks that are not corrected: an event of another node may seem to be that much later."""

SHOWN_AGENTS = 20
"""Agents of other nodes that an alert names."""

Place = tuple[int, int]
"""Journal of an event, and its number there."""


@dataclass(slots=True)
class HitCounters:
    """Hits and firings of other nodes."""

    counted: int = 0
    repeated: int = 0
    """Known already."""
    unknown: int = 0
    """Of rules that are not here, or that count otherwise here."""
    dropped: int = 0
    """Messages that came while too many waited."""


class Elsewhere(NamedTuple):
    """Events of other nodes that a composite has counted."""

    hits: int
    nodes: tuple[str, ...]
    agents: tuple[str, ...]

    @classmethod
    def of(cls, events: Sequence[ForeignEvent]) -> "Elsewhere":
        nodes, agents = {one.hit.node for one in events}, {one.hit.agent for one in events}
        return cls(len(events), tuple(sorted(nodes)), tuple(sorted(agents)[:SHOWN_AGENTS]))

    def as_dict(self) -> dict[str, Any]:
        """As alerts show it."""
        return {"count": self.hits, "nodes": list(self.nodes), "agents": list(self.agents)}


class ClusterMemory:
    """Of one engine."""

    def __init__(self, size: int, place: Callable[[], Place] | None = None) -> None:
        """``size``: hits of each other node that are kept. ``place``: of the event that is analysed just now."""
        self.outgoing = OutgoingHits()
        self.counters = HitCounters()
        self.place = place or (lambda: (0, 0))
        self._events = ForeignEvents(size)
        self._rules: dict[int, Rule] = {}
        self._forms: dict[int, bytes] = {}
        self._needed: dict[int, int] = {}
        self._arrived: deque[Sequence[HitsOf]] = deque()

    def use(self, rules: Iterable[Rule]) -> None:
        """The rules in force. What counts other events than before, or is gone, is forgotten."""
        marked = {one.id: one for one in rules if one.composite is not None and one.composite.in_cluster}
        forms = {number: _composite(one).form for number, one in marked.items()}
        for number, before in self._forms.items():
            if forms.get(number) != before:
                self._events.forget_rule(number)
        self._rules, self._forms = marked, forms
        self._needed = {number: _composite(one).needed for number, one in marked.items()}

    # Own events

    def remember(self, event: Event, composites: Iterable[Rule]) -> None:
        """Report to other nodes an event that these composites count."""
        forms = self._forms
        counted = [one for rule in composites if (one := _counted(rule.id, _composite(rule), forms[rule.id], event))]
        if counted:
            journal, number = self.place()
            times = min(event.occurrences, MAX_OCCURRENCES)
            hit = Hit(
                *(journal, number, event.rule_id, event.milliseconds, event.agent_id, times),
                *(tuple(counted[:MAX_COUNTED]), event.used_by_level),
            )
            self.outgoing.add(hit, self._needed)

    def fired(self, rule: int, composite: Composite, event: Event, used: Sequence[Event | ForeignEvent]) -> None:
        """A composite has counted the events ``used``, the newest first: report it, and note those of others."""
        foreign = [one for one in used if isinstance(one, ForeignEvent)]
        event.elsewhere = Elsewhere.of(foreign) if foreign else None
        uses_up = composite.needed > 1 or bool(composite.each)
        if not uses_up and not self._rules[rule].ignore:
            return
        newest = used[0]
        if isinstance(newest, ForeignEvent):
            counted: Counted | None = newest.counted
        else:
            counted = _counted(rule, composite, self._forms[rule], newest)
        if counted is not None:
            times = event.milliseconds, newest.milliseconds if uses_up else 0
            self.outgoing.add_firing(Firing(*self.place(), newest.rule_id, *times, counted))

    # Events of other nodes

    def arrived(self, messages: Sequence[HitsOf]) -> None:
        """Messages for the analysis thread. From any thread."""
        if len(self._arrived) >= MAX_ARRIVED:
            self.counters.dropped += sum(map(len, messages))
            return
        self._arrived.append(messages)

    @property
    def kept(self) -> int:
        """Hits and firings in memory."""
        return len(self._events)

    @property
    def waiting(self) -> bool:
        """Whether messages have arrived."""
        return bool(self._arrived)

    def take(self, ignored_since: dict[int, int], now: float) -> None:
        """Remember what has arrived at ``now``, in seconds since 1970: nothing is later, whatever its sender says.

        ``ignored_since``: when rules with an ``ignore`` time have fired.
        """
        latest = int(now * 1000)
        while self._arrived:
            for message in self._arrived.popleft():
                ahead = message.ahead * 1000
                for hit in message.hits:
                    self._take_hit(message.node, hit, min(hit.time + ahead, latest))
                for firing in message.firings:
                    fired, newest = min(firing.time + ahead, latest), min(firing.newest + ahead, latest)
                    self._take_firing(message.node, firing, fired, newest, ignored_since)

    def earlier(self, rule: int, composite: Composite, event: Event) -> Sequence[ForeignEvent]:
        """Events of other nodes that share the key of ``event``, in its time frame, the newest first."""
        if not self._events.has(rule):
            return ()
        key = composite.key(event)
        if key is None:
            return ()
        oldest, latest = (event.received - composite.timeframe) * 1000, event.milliseconds + CLOCK_MILLISECONDS
        found: list[ForeignEvent] = []
        for one in self._events.newest_first(rule, short_key(key)):
            if one.milliseconds < oldest:
                break
            if one.milliseconds <= latest:
                found.append(one)
        return found

    def _take_hit(self, node: str, hit: Hit, moment: int) -> None:
        known = [one for one in hit.counted if self._fits(one)]
        if not known:
            self.counters.unknown += 1
        else:
            self._count(self._events.add(node, hit, known, moment))

    def _take_firing(self, node: str, firing: Firing, fired: int, newest: int, ignored_since: dict[int, int]) -> None:
        if not self._fits(firing.counted):
            self.counters.unknown += 1
            return
        if firing.newest:
            self._count(self._events.add_firing(node, firing, newest))
        rule, second = self._rules[firing.counted.rule], fired // 1000
        if rule.ignore:
            since = ignored_since.get(rule.id)
            if since is None or second - since >= rule.ignore:
                ignored_since[rule.id] = second

    def _count(self, new: bool) -> None:
        if new:
            self.counters.counted += 1
        else:
            self.counters.repeated += 1

    def _fits(self, one: Counted) -> bool:
        """Whether the rule is here and compares as many values: a peer may send anything."""
        if self._forms.get(one.rule) != one.form:
            return False
        return (len(one.key), len(one.contrast), len(one.distinct)) == _composite(self._rules[one.rule]).compared


def short_key(key: Iterable[str | bytes]) -> tuple[bytes, ...]:
    """A key as nodes send it."""
    return tuple(short_value(one.encode() if isinstance(one, str) else one) for one in key)


def _counted(rule: int, composite: Composite, form: bytes, event: Event) -> Counted | None:
    """How a composite counts an event; None: it does not, or no other node has events that count with it."""
    if event.agent_id == MANAGER_ID and not composite.every_agent:
        return None
    key = composite.key(event)
    distinct = [get(event) for get in composite.distinct_values]
    if key is None or None in distinct:
        return None
    contrast = tuple(None if one is None else short_value(one) for one in composite.contrast(event))
    values = tuple(short_value(one) for one in distinct if one is not None)
    return Counted(rule, form, short_key(key), contrast, values)


def _composite(rule: Rule) -> Composite:
    assert rule.composite is not None, "only composites are counted in the cluster"
    return rule.composite
