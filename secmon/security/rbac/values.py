"""Operands of MATCH and FIND in rules: which values of a context they accept (rbac.md 10.2)."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from secmon.security.rbac.patterns import Pattern


class BudgetExceeded(Exception):
    """An evaluation exceeds its steps."""


class Budget:
    """Steps that an evaluation may still take; one is about a microsecond."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def spend(self, steps: int = 1) -> None:
        """Raises :class:`BudgetExceeded` when they are used up."""
        self.steps -= steps
        if self.steps < 0:
            raise BudgetExceeded


class Operand(Protocol):
    """An operand. ``budget`` pays for each comparison; raises :class:`BudgetExceeded`."""

    def equals(self, found: Any, budget: Budget) -> bool:
        """Whether it accepts ``found`` as an element of a list."""

    def meets(self, found: Any, budget: Budget) -> bool:
        """Whether it accepts ``found`` as the value of a member."""


class ScalarOperand:
    """A string, number, boolean or null, or a regular expression for strings; on a list it means ``[itself]``."""

    __slots__ = ("_strict", "_value")

    def __init__(self, value: Any, *, strict: bool) -> None:
        self._value = value
        self._strict = strict

    def equals(self, found: Any, budget: Budget) -> bool:
        value = self._value
        if isinstance(value, Pattern):
            if not isinstance(found, str):
                return False
            budget.spend(value.cost(found))
            return value.matches(found)
        budget.spend()
        return _json_kind(value) is _json_kind(found) and bool(value == found)

    def meets(self, found: Any, budget: Budget) -> bool:
        if not isinstance(found, list):
            return self.equals(found, budget)
        if self._strict and len(found) != 1:
            return False
        return any(self.equals(element, budget) for element in found)


class ListOperand:
    """A list: partial, each element accepts some element of the found list; strict, they pair off in any order."""

    __slots__ = ("_elements", "_strict")

    def __init__(self, elements: Sequence[Operand], *, strict: bool) -> None:
        self._elements = elements
        self._strict = strict

    def meets(self, found: Any, budget: Budget) -> bool:
        budget.spend()
        if not isinstance(found, list):
            return False
        if self._strict:
            return len(found) == len(self._elements) and match_all(self._elements, found, budget)
        return all(any(element.equals(one, budget) for one in found) for element in self._elements)

    equals = meets


class ObjectOperand:
    """An object: every member is found in the candidate; other members of the candidate are ignored.

    A name is literal or a pattern; of several members whose names match, one that is accepted is enough. A member that
    is null counts as absent (rbac.md 10.1, step 3).
    """

    __slots__ = ("_members",)

    def __init__(self, members: Sequence[tuple[str | Pattern, Operand]]) -> None:
        self._members = members

    @property
    def names(self) -> list[str]:
        """The literal names: whatever is accepted has them all."""
        return [name for name, _ in self._members if isinstance(name, str)]

    def meets(self, found: Any, budget: Budget) -> bool:
        budget.spend()
        return isinstance(found, dict) and all(_has(found, name, value, budget) for name, value in self._members)

    equals = meets


def _has(candidate: Mapping[str, Any], name: str | Pattern, value: Operand, budget: Budget) -> bool:
    if isinstance(name, str):
        found = candidate.get(name)
        return found is not None and value.meets(found, budget)
    for key, found in candidate.items():
        budget.spend(name.cost(key))
        if found is not None and name.matches(key) and value.meets(found, budget):
            return True
    return False


def _json_kind(value: Any) -> type:
    """The JSON type: booleans are no numbers, all numbers are of one type."""
    kind = type(value)
    return float if kind is int else kind


def match_all(elements: Sequence[Operand], found: Sequence[Any], budget: Budget) -> bool:
    """Whether each element can be given an element of ``found`` of its own that it accepts.

    Maximum matching by shortest augmenting paths: taking the first that fits would fail where a pattern takes what a
    later literal needs.
    """
    accepted = [[i for i, one in enumerate(found) if element.equals(one, budget)] for element in elements]
    holder: dict[int, int] = {}
    held: dict[int, int] = {}
    for element in range(len(elements)):
        reached, free = _path(element, accepted, holder, budget)
        if free is None:
            return False
        while True:
            taker = reached[free]
            given_up = held.get(taker)
            holder[free], held[taker] = taker, free
            if given_up is None:
                break
            free = given_up
    return True


def _path(
    start: int, accepted: Sequence[Sequence[int]], holder: Mapping[int, int], budget: Budget
) -> tuple[dict[int, int], int | None]:
    """From which element each found one was reached, and the free one reached at last, if any."""
    reached: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        element = waiting.popleft()
        for one in accepted[element]:
            budget.spend()
            if one in reached:
                continue
            reached[one] = element
            if one not in holder:
                return reached, one
            waiting.append(holder[one])
    return reached, None
