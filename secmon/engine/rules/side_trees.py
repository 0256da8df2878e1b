"""Trees of rules that are searched besides the ordinary one: each may add an alert of its own to an event.

Rules of side trees work on a twin of the event, so ordinary rules and side trees do not see each other: neither what
composites have counted, nor which rule was selected.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from secmon.engine.event import Event
from secmon.engine.memory.state import State
from secmon.engine.rules.child_index import index_of
from secmon.engine.rules.rule import Rule
from secmon.engine.rules.rule_search import Selection, Trace, search, traced


class SideSelection(NamedTuple):
    """The rule that one side tree selects, and the twin of the event that it has worked on."""

    event: Event
    selection: Selection


class SideTrees:
    """All side trees of a ruleset. Their roots have conditions on texts alone (``RuleReader``)."""

    __slots__ = ("_index", "_roots")

    def __init__(self, roots: Sequence[Rule]) -> None:
        self._roots = tuple(roots)
        self._index = index_of(roots)

    def __bool__(self) -> bool:
        return bool(self._roots)

    def select(self, event: Event, state: State, trace: Trace | None = None) -> Iterator[SideSelection]:
        """The selection of each tree that has one with a level. With a ``trace`` without indexes: the reference.

        Apply each before the next one is made: composites of one tree may count events that others select.
        """
        roots = self._roots if trace is not None or self._index is None else self._index.candidates(event)
        for root in roots:
            found = _select(root, event, state, trace)
            if found is not None and found.selection.rule.level > 0:
                yield found


def _select(root: Rule, event: Event, state: State, trace: Trace | None) -> SideSelection | None:
    if trace is not None:
        twin = event.twin()
        selection = traced(root, twin, state, trace)
        return None if selection is None else SideSelection(twin, selection)
    for condition in root.conditions:
        if not condition(event, state):
            return None
    children = root.children if root.index is None else root.index.candidates(event)
    if children:  # a twin costs more than all before
        twin = event.twin()
        for child in children:
            selection = search(child, twin, state)
            if selection is not None:
                return SideSelection(twin, selection)
    return None if root.noalert else SideSelection(event.twin(), Selection(root, None))
