"""Looking back: rules that need several events (ruleset.md 6.8, 6.9)."""

from collections.abc import Iterable, Sequence

from secmon.engine.event import Event
from secmon.engine.rules.rule import Composite, Condition
from secmon.engine.seen import value_of
from secmon.engine.state import State

OUTPUT_LIMIT = 11
"""Logs of previous events that an alert shows."""


def looking_back(rule: int, level: int, composite: Composite) -> Condition:
    """The search of the composite ``rule``. On success the events used are marked, so that it is armed anew."""
    needed = max(composite.frequency, 2) - 1

    def search(event: Event, state: State) -> bool:
        output: list[bytes] = []
        count = 0
        first: Event | None = None
        for earlier in reversed(_memory(rule, composite, state)):
            if event.received - earlier.received > composite.timeframe or earlier.forgotten:
                return False
            if not composite.every_agent and earlier.agent_id != event.agent_id:
                continue
            if composite.regex is not None and not _alike(composite, event, earlier):
                continue
            if not _fits(composite, event, earlier):
                continue
            if earlier.matched >= level:
                return False
            if len(output) < OUTPUT_LIMIT:
                output.append(earlier.full_log)
            count += 1
            if count == needed:
                event.matched = level
                if first is not None:
                    first.matched = level
                event.previous = output
                return True
            first = first or earlier
        return False

    return search


def _memory(rule: int, composite: Composite, state: State) -> Sequence[Event]:
    if composite.sid is not None:
        return state.sids.get(composite.sid, ())
    if composite.group is not None:
        return state.groups.get(rule, ())
    return state.recent


def _alike(composite: Composite, event: Event, earlier: Event) -> bool:
    assert composite.regex is not None, "asked for composites by pattern only"
    return earlier.category == event.category and composite.regex.test(earlier.log)


def _fits(composite: Composite, event: Event, earlier: Event) -> bool:
    for name in composite.same:
        value = value_of(event, name)
        if value is None or value != value_of(earlier, name):
            return False
    for name in composite.different:
        value = value_of(event, name)
        if value is not None and value == value_of(earlier, name):
            return False
    if composite.same_fields and not _equal(composite.same_fields, event, earlier):
        return False
    if not composite.different_fields:
        return True
    if not event.dynamic and not earlier.dynamic:
        return False
    return not any(_shared(name, event, earlier) for name in composite.different_fields)


def _equal(names: Iterable[str], event: Event, earlier: Event) -> bool:
    return all(_shared(name, event, earlier) for name in names)


def _shared(name: str, event: Event, earlier: Event) -> bool:
    value = event.names.get(name)
    return value is not None and value == earlier.names.get(name)
