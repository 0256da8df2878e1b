"""Selecting the rule of an event (ruleset.md 6.6): depth first, the first rule that matches.

Decoder processes evaluate rules without state. Where a condition reads state, the search stops with StateNeeded, which
collects the path from that rule up to its root. The analysis thread resumes there: the rules on the path have matched,
the siblings before each of them have not, and only the last one is evaluated again.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from secmon.engine.event import Event
from secmon.engine.memory.state import State, StateNeeded
from secmon.engine.rules.rule import Rule


class Selection(NamedTuple):
    """The rule of an event, and the last rule above it that matched and may alert."""

    rule: Rule
    previous: Rule | None


class Trace(Protocol):
    """Receives each step of a search (``rules_debug`` of logtest)."""

    def trying(self, rule: Rule) -> None: ...
    def matched(self, rule: Rule) -> None: ...
    def descending(self, rule: Rule) -> None: ...


def select(
    roots: Sequence[Rule], event: Event, state: State, trace: Trace | None = None, resume: Sequence[Rule] = ()
) -> Selection | None:
    """The rule of ``event``. With a ``trace`` every rule on the way is evaluated, without an index: the reference.

    ``resume``: from a root down to the first rule that is not evaluated yet; it and all rules after it are. Raises
    StateNeeded with the reverse of such a path where ``state`` is a NoState.
    """
    for root in roots[roots.index(resume[0]) :] if resume else roots:
        if root.category == event.category:
            below = resume and resume[1:]
            found = search(root, event, state, below) if trace is None else traced(root, event, state, trace)
            if found is not None:
                return found
            resume = ()
    return None


def search(rule: Rule, event: Event, state: State, resume: Sequence[Rule] = ()) -> Selection | None:
    """The rule of ``event`` in the tree below ``rule``; the other arguments are those of :func:`select`."""
    try:
        # With a path below it, this rule has matched already, in a decoder process: only its children remain.
        if not resume:
            for condition in rule.conditions:
                if not condition(event, state):
                    return None
        children: Sequence[Rule] = rule.children if rule.index is None else rule.index.candidates(event)
        if resume:  # the children before the next rule of the path have not matched
            children = children[children.index(resume[0]) :]
        for child in children:
            found = search(child, event, state, resume and resume[1:])
            if found is not None:
                return found if found.previous is not None else Selection(found.rule, rule)
            resume = ()
        return None if rule.noalert else Selection(rule, None)
    except StateNeeded as stop:
        stop.path.append(rule)
        raise


def traced(rule: Rule, event: Event, state: State, trace: Trace) -> Selection | None:
    """:func:`search` without an index."""
    trace.trying(rule)
    for condition in rule.conditions:
        if not condition(event, state):
            return None
    trace.matched(rule)
    if rule.children:
        trace.descending(rule)
    for child in rule.children:
        found = traced(child, event, state, trace)
        if found is not None:
            return found if found.previous is not None else Selection(found.rule, rule)
    return None if rule.noalert else Selection(rule, None)
