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
    """The reference: every rule on the way is asked."""
    for root in roots:
        if root.category == event.category:
            found = _evaluate(root, event, state, trace)
            if found is not None:
                return found
    return None


def _evaluate(rule: Rule, event: Event, state: State, trace: Trace | None) -> Selection | None:
    if trace is not None:
        trace.trying(rule)
    for condition in rule.conditions:
        if not condition(event, state):
            return None
    if trace is not None:
        trace.matched(rule)
        if rule.children:
            trace.descending(rule)
    for child in rule.children:
        found = _evaluate(child, event, state, trace)
        if found is not None:
            return found if found.previous is not None else Selection(found.rule, rule)
    return None if rule.noalert else Selection(rule, None)
