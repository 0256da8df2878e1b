"""Conditions on texts of an event, and the field that each element tests (ruleset.md 6.2)."""

import re
from collections.abc import Callable

from secmon.engine.event import STATIC, Event
from secmon.engine.matching import Expression
from secmon.engine.matching.expression import Kind
from secmon.engine.memory.state import State
from secmon.engine.rules.rule import Condition, Precondition

Getter = Callable[[Event], bytes | None]


def _static(name: str) -> Getter:
    return lambda event: event.static.get(name)


def _user(event: Event) -> bytes | None:
    found = event.static.get("dstuser")
    return event.static.get("srcuser") if found is None else found


def _list_user(event: Event) -> bytes | None:
    found = event.static.get("srcuser")
    return event.static.get("dstuser") if found is None else found


def _nothing(event: Event) -> bytes | None:
    """For fields of a GeoIP database, which secmon does not have."""
    return None


_PLAIN: dict[str, Getter] = {
    "match": lambda event: event.log,
    "regex": lambda event: event.log,
    "program_name": lambda event: event.program_name,
    "hostname": lambda event: event.hostname,
    "location": lambda event: event.location,
    "user": _user,
    "srcgeoip": _nothing,
    "dstgeoip": _nothing,
}
_STATIC_ELEMENTS = (
    "action", "id", "url", "status", "data", "extra_data", "protocol", "system_name", "srcport", "dstport",
)  # fmt: skip

GETTERS: dict[str, Getter] = _PLAIN | {name: _static(name) for name in _STATIC_ELEMENTS}
"""The text that each element of a rule tests."""

DEFAULT_KINDS: dict[str, Kind] = {"regex": "osregex", "action": "string"}
"""Default pattern languages; that of all other elements is osmatch."""

_LIST_FIELDS = (
    "srcip", "srcport", "dstip", "dstport", "url", "id", "status", "action", "protocol", "system_name", "data",
    "extra_data",
)  # fmt: skip

LIST_GETTERS: dict[str, Getter] = {name: _static(name) for name in _LIST_FIELDS} | {
    "user": _list_user,
    "hostname": _PLAIN["hostname"],
    "program_name": _PLAIN["program_name"],
}
"""Names for ``field`` of a ``list`` besides dynamic fields; ``user`` prefers ``srcuser`` (ruleset.md 14, Q20)."""

NOT_DYNAMIC = frozenset((*STATIC, "user", "srcgeoip", "dstgeoip"))
"""Names that the element ``field`` refuses."""


def dynamic(name: str) -> Getter:
    """A dynamic field by its name; case does not matter."""
    key = name.lower()
    return lambda event: event.names.get(key)


def text_condition(getter: Getter, expression: Expression, *, negated: bool) -> Condition:
    """A field that the event lacks never matches, negated or not."""
    test = expression.test
    if negated:

        def unlike(event: Event, state: State) -> bool:
            value = getter(event)
            return value is not None and not test(value)

        return unlike

    def like(event: Event, state: State) -> bool:
        value = getter(event)
        return value is not None and test(value)

    return like


_EXACT = re.compile(rb"\^([^\^$|!\\()+*]+)\$")


def exact_values(pattern: bytes, kind: Kind) -> frozenset[bytes] | None:
    """All values that can match, in lower case; None when they cannot be listed."""
    if kind == "string":
        return frozenset((pattern.lower(),))
    if kind == "pcre2":
        return None
    found = [_EXACT.fullmatch(one) for one in pattern.split(b"|")]
    if not all(found):
        return None
    return frozenset(one[1].lower() for one in found if one)


def precondition_of(name: str, pattern: bytes, kind: Kind, *, negated: bool) -> Precondition | None:
    """The precondition of a text element on the field ``name``; None when it has none."""
    values = None if negated else exact_values(pattern, kind)
    return None if values is None else Precondition(field_name=name, values=values)
