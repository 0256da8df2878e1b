"""Composite rules: they match when enough earlier events fit (``frequency``, ``timeframe``; ruleset.md 6.8, 6.9)."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from secmon.engine.event import Contrast, Event, Run
from secmon.engine.matching import Expression
from secmon.engine.memory.state import State
from secmon.engine.rules.rule import Composite, Condition

OUTPUT_LIMIT = 11
"""Logs of earlier events that an alert shows."""


def composite_condition(rule: int, level: int, composite: Composite) -> Condition:
    """The last condition of the composite ``rule``: whether enough earlier events fit.

    On success the completing event and the newest earlier one are marked with ``level``. A later search of this level
    stops at a marked event, so that the count starts again behind it. An event counts once for each occurrence of its
    rule in the tree (ruleset.md 6.7); public rules depend on it.
    """
    if composite.each:
        return _each_condition(rule, level, composite)
    needed = max(composite.frequency, 2) - 1

    def search(event: Event, state: State) -> bool:
        output: list[bytes] = []
        count = 0
        newest: Event | None = None
        distinct = _Distinct(composite, event) if composite.distinct_fields else None
        if distinct is not None and not distinct.countable:
            return False
        for earlier in _earlier(rule, composite, event, state):
            if distinct is not None and not distinct.add(earlier):
                continue
            if earlier.used_by_level >= level:  # used by an alert already: nothing before it counts
                return False
            times = min(1 if composite.regex or distinct else earlier.occurrences, needed - count)
            output += [earlier.full_log] * min(times, OUTPUT_LIMIT - len(output))
            count += times
            newest = newest or earlier
            if count == needed:
                event.used_by_level = level
                if needed > 1:
                    newest.used_by_level = level
                event.previous = output
                return True
        return False

    return search


def _each_condition(rule: int, level: int, composite: Composite) -> Condition:
    """Whether there was an event of each rule of ``each``. On success as :func:`composite_condition`."""

    def search(event: Event, state: State) -> bool:
        missing, used = list(dict.fromkeys(composite.each)), list[Event]()
        for earlier in _earlier(rule, composite, event, state):
            number = earlier.rule_id
            if number not in missing or (composite.in_order and number != missing[-1]):
                continue
            if earlier.used_by_level >= level:
                return False
            missing.remove(number)
            used.append(earlier)
            if not missing:
                event.used_by_level = used[0].used_by_level = level
                event.previous = [one.full_log for one in used[:OUTPUT_LIMIT]]
                return True
        return False

    return search


class _Distinct:
    """The values of ``distinct_fields`` that were seen; an event without one of the fields never counts."""

    def __init__(self, composite: Composite, event: Event) -> None:
        self._getters = composite.distinct_values
        self._seen: set[tuple[bytes | None, ...]] = set()
        self.countable = self.add(event)

    def add(self, event: Event) -> bool:
        """Whether the event has values that are new."""
        values = tuple(get(event) for get in self._getters)
        if None in values or values in self._seen:
            return False
        self._seen.add(values)
        return True


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
