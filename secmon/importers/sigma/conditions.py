"""Conditions of a rule of ours as a tree: tests of one text each, and groups of them, in their simplest form."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

MAX_CONTENT = 2048
"""Bytes of one text element (``text_reader.MAX_TEXT_PART``): the engine cuts what is longer."""
MAX_ALTERNATIVE = 400
"""Bytes of one alternative of OS_Match."""
MAX_JOINED = MAX_CONTENT - MAX_ALTERNATIVE - 2
"""Leaves room for one alternative that is repeated (``rule_xml``)."""
MAX_DEPTH = 15
"""Groups of a condition within each other; those of a log source and of a correlation are around them."""
GroupKind = Literal["any", "all", "none"]
Kind = Literal["osmatch", "pcre2", "string", "cidr", "number", "reference"]


@dataclass(frozen=True, slots=True)
class TextTest:
    """One text element. ``element``: its name; of a ``field`` also ``field``, one name or several with ``|``."""

    element: str
    kind: Kind
    content: bytes
    field: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """``any``, ``all`` or ``none`` of the members. Without members ``any`` never matches, the others always do."""

    kind: GroupKind
    members: tuple["Condition", ...]


Condition = TextTest | Group
NEVER = Group("any", ())
ALWAYS = Group("all", ())


def depth(condition: Condition) -> int:
    """Groups within each other."""
    return 0 if isinstance(condition, TextTest) else 1 + max(map(depth, condition.members), default=0)


def any_of(members: Iterable[Condition]) -> Condition:
    """A disjunction; tests of the same text by OS_Match become one with all alternatives."""
    flat: list[Condition] = []
    for one in members:
        flat += one.members if isinstance(one, Group) and one.kind == "any" else [one]
    if ALWAYS in flat:
        return ALWAYS
    flat = _joined(list(dict.fromkeys(flat)))
    return flat[0] if len(flat) == 1 else Group("any", tuple(flat))


def all_of(members: Iterable[Condition]) -> Condition:
    """A conjunction."""
    flat: list[Condition] = []
    for one in members:
        flat += one.members if isinstance(one, Group) and one.kind == "all" else [one]
    if NEVER in flat:
        return NEVER
    flat = list(dict.fromkeys(flat))
    return flat[0] if len(flat) == 1 else Group("all", tuple(flat))


def none_of(condition: Condition) -> Condition:
    """A negation, true also where the event lacks the fields that ``condition`` tests."""
    if condition == NEVER:
        return ALWAYS
    if condition == ALWAYS:
        return NEVER
    if isinstance(condition, Group) and condition.kind == "none":
        return any_of(condition.members)
    if isinstance(condition, Group) and condition.kind == "any":
        return Group("none", condition.members)
    return Group("none", (condition,))


def _joined(members: Sequence[Condition]) -> list[Condition]:
    """Alternatives of OS_Match on one text in as few tests as the length of an element allows, in their order."""
    made: list[Condition] = []
    open_tests: dict[tuple[str, str], int] = {}
    for one in members:
        if not isinstance(one, TextTest) or one.kind != "osmatch" or not one.content:
            made.append(one)
            continue
        at = open_tests.get((one.element, one.field))
        before = made[at] if at is not None else None
        if isinstance(before, TextTest) and at is not None and len(before.content) + len(one.content) < MAX_JOINED:
            made[at] = TextTest(one.element, "osmatch", before.content + b"|" + one.content, one.field)
        else:
            open_tests[one.element, one.field] = len(made)
            made.append(one)
    return made
