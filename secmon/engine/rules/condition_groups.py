"""Groups of conditions in a rule: ``any``, ``all`` and ``none`` of their members, which may be groups again."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from secmon.engine.event import Event
from secmon.engine.matching.pattern_index import Requirement
from secmon.engine.memory.state import State
from secmon.engine.rules.rule import Condition, Precondition, selectivity
from secmon.engine.rules.text_conditions import (
    GETTERS,
    TextElement,
    field_getter,
    field_key,
    precondition_of,
    text_condition,
)

GroupKind = Literal["any", "all", "none"]
GROUP_KINDS: tuple[GroupKind, ...] = ("any", "all", "none")


@dataclass(slots=True)
class Member:
    """A text element by its name, or a ``field`` by that of the field."""

    name: str
    text: TextElement
    is_field: bool = False

    def condition(self) -> Condition:
        getter = field_getter(self.name, self.text) if self.is_field else GETTERS[self.name]
        return text_condition(getter, self.text)

    def preconditions(self) -> list[Precondition]:
        if self.is_field:
            return [precondition_of(field_key(self.name, self.text), field_getter(self.name, self.text), self.text)]
        return [precondition_of(self.name, GETTERS[self.name], self.text)]


@dataclass(slots=True)
class ConditionGroup:
    """``none``: no member matches, also where the event lacks the fields that they test."""

    kind: GroupKind
    members: list["Member | ConditionGroup"] = field(default_factory=list)

    def condition(self) -> Condition:
        return _CONDITIONS[self.kind]([one.condition() for one in self.members])

    def preconditions(self) -> list[Precondition]:
        """What follows from the group for texts of the event."""
        if self.kind == "none":
            return []
        parts = [one.preconditions() for one in self.members]
        if self.kind == "all":
            return [one for part in parts for one in part]
        best = [{one.text: one for one in sorted(part, key=selectivity)} for part in parts]
        common = set.intersection(*(set(one) for one in best))
        return [_union([one[text] for one in best]) for text in best[0] if text in common]

    def texts(self) -> Iterator[tuple[str, TextElement]]:
        """All text elements, with their names."""
        for one in self.members:
            if isinstance(one, Member):
                yield one.name, one.text
            else:
                yield from one.texts()


def _any(members: Sequence[Condition]) -> Condition:
    def one_of(event: Event, state: State) -> bool:
        for test in members:  # noqa: SIM110 - half the time of any()
            if test(event, state):
                return True
        return False

    return one_of


def _all(members: Sequence[Condition]) -> Condition:
    def all_of(event: Event, state: State) -> bool:
        for test in members:  # noqa: SIM110
            if not test(event, state):
                return False
        return True

    return all_of


def _none(members: Sequence[Condition]) -> Condition:
    def none_of(event: Event, state: State) -> bool:
        for test in members:  # noqa: SIM110
            if test(event, state):
                return False
        return True

    return none_of


_CONDITIONS: dict[GroupKind, Callable[[Sequence[Condition]], Condition]] = {"any": _any, "all": _all, "none": _none}


def _union(alternatives: Sequence[Precondition]) -> Precondition:
    """What holds whichever of ``alternatives`` does; all are of one text."""
    first = alternatives[0]
    if all(one.values is not None for one in alternatives):
        values = frozenset(value for one in alternatives for value in one.values or ())
        return Precondition(first.text, first.getter, values)
    literals: list[bytes] = []
    for one in alternatives:
        known = one.values if one.values is not None else one.requirement.literals
        if known is None:
            return Precondition(first.text, first.getter)
        literals += known
    return Precondition(first.text, first.getter, requirement=Requirement(tuple(literals)))
