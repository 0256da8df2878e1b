"""Composite rules: they match when enough earlier events fit (``frequency``, ``timeframe``; ruleset.md 6.8, 6.9)."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import takewhile

from secmon.cluster.rule_hits import short_value
from secmon.engine.cluster_hits.foreign_events import ForeignEvent
from secmon.engine.event import Contrast, Event, Run
from secmon.engine.matching import Expression
from secmon.engine.memory.state import State
from secmon.engine.rules.rule import Composite, Condition

OUTPUT_LIMIT = 11
"""Logs of earlier events that an alert shows."""

Earlier = Event | ForeignEvent


def composite_condition(rule: int, level: int, composite: Composite) -> Condition:
    """The last condition of the composite ``rule``: whether enough earlier events fit.

    On success the completing event and the newest earlier one are marked with ``level``. A later search of this level
    stops at a marked event, so that the count starts again behind it. An event counts once for each occurrence of its
    rule in the tree (ruleset.md 6.7); public rules depend on it.
    """
    if composite.each:
        return _each_condition(rule, level, composite)
    needed = composite.needed
    earlier_events = _earlier_in_cluster if composite.in_cluster else _earlier

    def search(event: Event, state: State) -> bool:
        counted: list[Earlier] = []
        distinct = _Distinct(composite, event) if composite.distinct_fields else None
        if distinct is not None and not distinct.countable:
            return False
        for earlier in earlier_events(rule, composite, event, state):
            if distinct is not None and not distinct.add(earlier):
                continue
            if earlier.used_by_level >= level:  # used by an alert already: nothing before it counts
                return False
            times = 1 if composite.regex or distinct else earlier.occurrences
            counted += [earlier] * min(times, needed - len(counted))
            if len(counted) == needed:
                event.used_by_level = level
                if needed > 1:
                    counted[0].used_by_level = level
                _completed(rule, composite, event, counted, state)
                return True
        return False

    return search


def _each_condition(rule: int, level: int, composite: Composite) -> Condition:
    """Whether there was an event of each rule of ``each``. On success as :func:`composite_condition`."""

    earlier_events = _earlier_in_cluster if composite.in_cluster else _earlier

    def search(event: Event, state: State) -> bool:
        missing, used = list(dict.fromkeys(composite.each)), list[Earlier]()
        for earlier in earlier_events(rule, composite, event, state):
            number = earlier.rule_id
            if number not in missing or (composite.in_order and number != missing[-1]):
                continue
            if earlier.used_by_level >= level:
                return False
            missing.remove(number)
            used.append(earlier)
            if not missing:
                event.used_by_level = used[0].used_by_level = level
                _completed(rule, composite, event, used, state)
                return True
        return False

    return search


def _completed(rule: int, composite: Composite, event: Event, used: Sequence[Earlier], state: State) -> None:
    """Note what an alert of the composite shows, and report it to other nodes. ``used``: the newest first."""
    event.previous = [one.full_log for one in used if isinstance(one, Event)][:OUTPUT_LIMIT]
    if composite.in_cluster and state.cluster is not None:
        state.cluster.fired(rule, composite, event, used)


class _Distinct:
    """The values of ``distinct_fields`` that were seen; an event without one of the fields never counts."""

    def __init__(self, composite: Composite, event: Event) -> None:
        self._getters = composite.distinct_values
        self._in_cluster = composite.in_cluster
        self._seen: set[tuple[bytes | None, ...]] = set()
        self.countable = self.add(event)

    def add(self, event: Earlier) -> bool:
        """Whether the event has values that are new."""
        values = self._values(event)
        if None in values or values in self._seen:
            return False
        self._seen.add(values)
        return True

    def _values(self, event: Earlier) -> tuple[bytes | None, ...]:
        if isinstance(event, ForeignEvent):
            return event.counted.distinct
        values = tuple(get(event) for get in self._getters)
        return _short(values) if self._in_cluster else values


def _earlier_in_cluster(rule: int, composite: Composite, event: Event, state: State) -> Iterable[Earlier]:
    """:func:`_earlier` and events of other nodes, by their time. Marks come before the events that they are of."""
    cluster, own = state.cluster, _earlier(rule, composite, event, state)
    foreign = cluster.earlier(rule, composite, event) if cluster is not None else ()
    if not foreign:
        return own
    contrast = _short(composite.contrast(event))
    others = [one for one in foreign if _differ(contrast, one.counted.contrast)]
    return merge(others, own, key=_moment, reverse=True)


def _moment(one: Earlier) -> int:
    return one.milliseconds


def _short(values: Iterable[bytes | None]) -> Contrast:
    """Values as other nodes send them."""
    return tuple(None if one is None else short_value(one) for one in values)


def _earlier(rule: int, composite: Composite, event: Event, state: State) -> Iterator[Event]:
    """Earlier events within the time frame that may count, the newest first.

    The memory of a composite is kept by agent and by the values that must be the same. A composite by pattern
    (``if_matched_regex``) has no memory of its own and searches all recent events.
    """
    key = composite.key(event)
    if key is None:
        return
    contrast = composite.contrast(event)
    oldest = event.received - composite.timeframe
    if composite.regex is None:
        yield from _of_runs(state.composites.get(rule, {}).get(key, ()), contrast, oldest)
        return
    for earlier in _since(oldest, reversed(state.recent)):
        alike = _same_key_and_pattern(composite.regex, composite, event, earlier)
        if alike and _differ(contrast, composite.contrast(earlier)):
            yield earlier


def _of_runs(runs: Sequence[Run], contrast: Contrast, oldest: int) -> Iterator[Event]:
    """Events that differ, the newest first. A run of events that do not is passed at once."""
    for values, events in reversed(runs):
        if events[-1].received < oldest:
            return
        if _differ(contrast, values):
            yield from _since(oldest, reversed(events))


def _since(oldest: int, events: Iterator[Event]) -> Iterator[Event]:
    return takewhile(lambda one: one.received >= oldest, events)


def _same_key_and_pattern(regex: Expression, composite: Composite, event: Event, earlier: Event) -> bool:
    same = earlier.category == event.category and earlier.in_side_tree is event.in_side_tree
    same = same and composite.key(event) == composite.key(earlier)
    return same and regex.test(earlier.log)


def _differ(mine: Contrast, others: Contrast) -> bool:
    return not any(one is not None and one == other for one, other in zip(mine, others, strict=True))
