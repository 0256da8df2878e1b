"""Finding the rule of an event (ruleset.md 6.6): depth first, the first one that matches."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from secmon.engine.event import Event
from secmon.engine.rules.rule import Rule
from secmon.engine.state import State


class Selection(NamedTuple):
    """The rule that an event got, and the one above it on the way there."""

    rule: Rule
    previous: Rule | None


class Trace(Protocol):
    """Hears of each step, for people who want to know why."""

    def trying(self, rule: Rule) -> None: ...
    def matched(self, rule: Rule) -> None: ...
    def descending(self, rule: Rule) -> None: ...


def select(roots: Sequence[Rule], event: Event, state: State, trace: Trace | None = None) -> Selection | None:
    """The rule of ``event``. With a ``trace`` every rule on the way is asked: that is the reference."""
    for root in roots:
        if root.category == event.category:
            found = _search(root, event, state) if trace is None else _explain(root, event, state, trace)
            if found is not None:
                return found
    return None


def _search(rule: Rule, event: Event, state: State) -> Selection | None:
    for condition in rule.conditions:
        if not condition(event, state):
            return None
    for child in rule.children if rule.index is None else rule.index.candidates(event):
        found = _search(child, event, state)
        if found is not None:
            return found if found.previous is not None else Selection(found.rule, rule)
    return None if rule.noalert else Selection(rule, None)


def _explain(rule: Rule, event: Event, state: State, trace: Trace) -> Selection | None:
    trace.trying(rule)
    for condition in rule.conditions:
        if not condition(event, state):
            return None
    trace.matched(rule)
    if rule.children:
        trace.descending(rule)
    for child in rule.children:
        found = _explain(child, event, state, trace)
        if found is not None:
            return found if found.previous is not None else Selection(found.rule, rule)
    return None if rule.noalert else Selection(rule, None)
