"""Conditions on texts of an event: which element looks at what (ruleset.md 6.2)."""

import re
from collections.abc import Callable

from secmon.engine.event import STATIC, Event
from secmon.engine.matching import Expression
from secmon.engine.matching.expression import Kind
from secmon.engine.memory.state import State
from secmon.engine.rules.rule import Condition, Need

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
    """Of fields that need a data base of places, which secmon does not have."""
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
"""What each text element of a rule looks at."""

DEFAULT_KINDS: dict[str, Kind] = {"regex": "osregex", "action": "string"}
"""Of all others: osmatch."""

_LIST_FIELDS = (
    "srcip", "srcport", "dstip", "dstport", "url", "id", "status", "action", "protocol", "system_name", "data",
    "extra_data",
)  # fmt: skip

LIST_GETTERS: dict[str, Getter] = {name: _static(name) for name in _LIST_FIELDS} | {
    "user": _list_user,
    "hostname": _PLAIN["hostname"],
    "program_name": _PLAIN["program_name"],
}
"""What ``field`` of a ``list`` may name besides dynamic fields; ``user``: the source's first (ruleset.md 14, Q20)."""

NOT_DYNAMIC = frozenset((*STATIC, "user", "srcgeoip", "dstgeoip"))
"""Names that the element ``field`` refuses."""


def dynamic(name: str) -> Getter:
    """A dynamic field by its name, in whatever case."""
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
    """The values, in lower case, that alone can match; None when they cannot be listed."""
    if kind == "string":
        return frozenset((pattern.lower(),))
    if kind == "pcre2":
        return None
    found = [_EXACT.fullmatch(one) for one in pattern.split(b"|")]
    if not all(found):
        return None
    return frozenset(one[1].lower() for one in found if one)


def need_of(name: str, pattern: bytes, kind: Kind, *, negated: bool) -> Need | None:
    """What a text element on the field ``name`` requires of an event."""
    values = None if negated else exact_values(pattern, kind)
    return None if values is None else Need(field_name=name, values=values)
