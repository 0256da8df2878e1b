"""Finding the rule of an event (ruleset.md 6.6): depth first, the first one that matches."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from secmon.engine.event import Event
from secmon.engine.memory.state import State, StateNeeded
from secmon.engine.rules.rule import Rule


class Selection(NamedTuple):
    """The rule that an event got, and the one above it on the way there."""

    rule: Rule
    previous: Rule | None


class Trace(Protocol):
    """Hears of each step, for people who want to know why."""

    def trying(self, rule: Rule) -> None: ...
    def matched(self, rule: Rule) -> None: ...
    def descending(self, rule: Rule) -> None: ...


def select(
    roots: Sequence[Rule], event: Event, state: State, trace: Trace | None = None, way: Sequence[Rule] = ()
) -> Selection | None:
    """The rule of ``event``. With a ``trace`` every rule on the way is asked: that is the reference.

    ``way``: from a root down to the first rule that was not asked yet, when others were already, and before all that
    come before them. Raises StateNeeded with the reverse of it where ``state`` is none.
    """
    for root in roots[roots.index(way[0]) :] if way else roots:
        if root.category == event.category:
            known = way and way[1:]
            found = _search(root, event, state, known) if trace is None else _explain(root, event, state, trace)
            if found is not None:
                return found
            way = ()
    return None


def _search(rule: Rule, event: Event, state: State, way: Sequence[Rule] = ()) -> Selection | None:
    try:
        if not way:
            for condition in rule.conditions:
                if not condition(event, state):
                    return None
        children: Sequence[Rule] = rule.children if rule.index is None else rule.index.candidates(event)
        if way:  # this rule has matched, and the children before that one have not
            children = children[children.index(way[0]) :]
        for child in children:
            found = _search(child, event, state, way and way[1:])
            if found is not None:
                return found if found.previous is not None else Selection(found.rule, rule)
            way = ()
        return None if rule.noalert else Selection(rule, None)
    except StateNeeded as stop:
        stop.way.append(rule)
        raise


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
