"""Looking back: rules that need several events (ruleset.md 6.8, 6.9)."""

from collections.abc import Iterator

from secmon.engine.event import Event
from secmon.engine.matching import Expression
from secmon.engine.memory.seen import value_of
from secmon.engine.memory.state import State
from secmon.engine.rules.rule import Composite, Condition

OUTPUT_LIMIT = 11
"""Logs of previous events that an alert shows."""


def looking_back(rule: int, level: int, composite: Composite) -> Condition:
    """The search of the composite ``rule``. On success the events used are marked, so that it is armed anew.

    An event counts once for each place of its rule, as in ruleset.md 6.7. Public rules depend on it.
    """
    needed = max(composite.frequency, 2) - 1

    def search(event: Event, state: State) -> bool:
        output: list[bytes] = []
        count = 0
        first: Event | None = None
        for earlier in _earlier(rule, composite, event, state):
            if not _fits(composite, event, earlier):
                continue
            if earlier.matched >= level:
                return False
            times = min(1 if composite.regex else earlier.places, needed - count)
            output += [earlier.full_log] * min(times, OUTPUT_LIMIT - len(output))
            count += times
            first = first or earlier
            if count == needed:
                event.matched = level
                if needed > 1:
                    first.matched = level
                event.previous = output
                return True
        return False

    return search


def _earlier(rule: int, composite: Composite, event: Event, state: State) -> Iterator[Event]:
    """Earlier events within the time frame that may count, the latest first.

    They are of the same agent, and have the values that must be the same; the memory is kept by these. A composite by
    pattern looks back on all events instead.
    """
    key = composite.key(event)
    if key is None:
        return
    for earlier in reversed(state.recent if composite.regex else state.composites.get(rule, {}).get(key, ())):
        if event.received - earlier.received > composite.timeframe:
            return
        if composite.regex is None or _alike(composite.regex, composite, event, earlier):
            yield earlier


def _alike(regex: Expression, composite: Composite, event: Event, earlier: Event) -> bool:
    same = earlier.category == event.category and composite.key(event) == composite.key(earlier)
    return same and regex.test(earlier.log)


def _fits(composite: Composite, event: Event, earlier: Event) -> bool:
    """Whether what must be different is."""
    for name in composite.different:
        value = value_of(event, name)
        if value is not None and value == value_of(earlier, name):
            return False
    if not composite.different_fields:
        return True
    if not event.dynamic and not earlier.dynamic:
        return False
    return not any(_shared(name, event, earlier) for name in composite.different_fields)


def _shared(name: str, event: Event, earlier: Event) -> bool:
    value = event.names.get(name)
    return value is not None and value == earlier.names.get(name)
