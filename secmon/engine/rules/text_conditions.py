"""Conditions on texts of an event, and the field that each element tests (ruleset.md 6.2)."""

import re
from dataclasses import dataclass
from typing import Literal

from secmon.engine.decoders.eventchannel import NAME as CHANNEL
from secmon.engine.decoders.eventchannel import as_written
from secmon.engine.event import STATIC, Event
from secmon.engine.matching import Expression
from secmon.engine.matching.expression import Kind
from secmon.engine.matching.pattern_index import Requirement
from secmon.engine.memory.state import State
from secmon.engine.rules.derived_fields import Derivation, derivation
from secmon.engine.rules.rule import Condition, Getter, Precondition

TextKind = Kind | Literal["reference"]


@dataclass(slots=True)
class TextElement:
    """A text element: repetitions are joined, type and negation are those of the last one.

    ``plain``: it tests the value as the host has written it. Of kind ``reference`` the content names another field.
    """

    kind: TextKind
    content: bytes = b""
    negated: bool = False
    plain: bool = False
    expression: Expression | None = None


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

DEFAULT_KINDS: dict[str, TextKind] = {"regex": "osregex", "action": "string"}
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

EVERY = "*"
"""In the place of a name: the values of all fields."""
NOT_DYNAMIC = frozenset((*STATIC, "user", "srcgeoip", "dstgeoip"))
"""Names that the element ``field`` refuses where it is not plain."""


def dynamic(name: str) -> Getter:
    """A dynamic field by its name; case does not matter."""
    key = name.lower()
    return lambda event: event.names.get(key)


def plain(names: str) -> Getter:
    """The first of some fields, separated by ``|``, that the event has, as the host has written it."""
    getters = [_plain(name) for name in names.lower().split("|")]
    if len(getters) == 1:
        return getters[0]

    def first(event: Event) -> bytes | None:
        for get in getters:
            value = get(event)
            if value is not None:
                return value
        return None

    return first


def _plain(key: str) -> Getter:
    if key in STATIC:
        return _static(key)
    derive = derivation(key)
    if derive is not None:
        return _remembered(key, derive)

    def get(event: Event) -> bytes | None:
        value = event.names.get(key)
        if value is None or (b"\\" not in value and b"&" not in value):
            return value
        if event.decoder is None or event.decoder.name != CHANNEL:
            return value
        known = event.plain
        if known is None:
            known = event.plain = {}
        found = known.get(key)
        if found is None:
            found = known[key] = as_written(value)
        return found

    return get


def _remembered(key: str, derive: Derivation) -> Getter:
    """A field that the decoders may have given, else one that is derived from the event, once."""

    def get(event: Event) -> bytes | None:
        value = event.names.get(key)
        if value is not None:
            return value
        known = event.plain
        if known is None:
            known = event.plain = {}
        if key not in known:
            known[key] = derive(event)
        return known[key]

    return get


def _every_value(event: Event) -> bytes:
    known = event.plain
    if known is None:
        known = event.plain = {}
    found = known.get(EVERY)
    if found is None:
        written = as_written if event.decoder is not None and event.decoder.name == CHANNEL else bytes
        values = (*event.static.values(), *(value for _, value in event.dynamic))
        found = known[EVERY] = b"\n\0".join(written(value) for value in values)
    return found


def value_of(name: str) -> Getter:
    """A field that composites compare: a dynamic one, or what plain fields can name: static or derived ones, lists."""
    beyond = "|" in name or name in STATIC or derivation(name) is not None
    return plain(name) if beyond else dynamic(name)


def field_getter(name: str, text: TextElement) -> Getter:
    """What the element ``field`` of this name tests: a field, or all of them, with a line end and a NUL in between."""
    if name == EVERY:
        return _every_value
    return plain(name) if text.plain else dynamic(name)


def field_key(name: str, text: TextElement) -> str:
    """A name of that text, the same for all rules. With a point: no event without this dynamic field has the text."""
    if name == EVERY:
        return EVERY
    return f"{'plain ' if text.plain else '.'}{name.lower()}"


def text_condition(getter: Getter, text: TextElement) -> Condition:
    """A field that the event lacks never matches, negated or not."""
    if text.kind == "reference":
        return _reference(getter, text)
    assert text.expression is not None, "compiled when the rule was read"
    test = text.expression.test
    if text.negated:

        def unlike(event: Event, state: State) -> bool:
            value = getter(event)
            return value is not None and not test(value)

        return unlike

    def like(event: Event, state: State) -> bool:
        value = getter(event)
        return value is not None and test(value)

    return like


def _reference(getter: Getter, text: TextElement) -> Condition:
    """``^name$``: equal to another field, ``^name``: begins with it, ``name$``: ends with it, ``name``: contains it.

    ASCII letters of either case are the same, as in OS_Match.
    """
    name = text.content.decode("utf-8", "replace").strip()
    starts, ends, wanted = name.startswith("^"), name.endswith("$"), not text.negated
    bare = name[starts : len(name) - ends]
    other = field_getter(bare, text)

    def like(event: Event, state: State) -> bool:
        value, part = getter(event), other(event)
        if value is None or part is None:
            return False
        value, part = value.lower(), part.lower()
        if starts and ends:
            return (value == part) is wanted
        if starts or ends:
            return (value.startswith(part) if starts else value.endswith(part)) is wanted
        return (part in value) is wanted

    return like


_TESTS_OF_LOG = ("match", "regex")
_EXACT = re.compile(rb"\^([^\^$|!\\()+*]+)\$")
_EXACT_OSMATCH = re.compile(rb"\^(.+)\$", re.DOTALL)


def exact_values(pattern: bytes, kind: TextKind) -> frozenset[bytes] | None:
    """All values that can match, in lower case; None when they cannot be listed."""
    if kind == "string":
        return frozenset((pattern.lower(),))
    if kind not in ("osmatch", "osregex"):
        return None
    values = []
    for one in pattern.split(b"|"):
        found = (_EXACT_OSMATCH if kind == "osmatch" else _EXACT).fullmatch(one)
        if found is None:
            return None
        values.append(found[1].lower())
    return frozenset(values)


def precondition_of(name: str, getter: Getter, text: TextElement) -> Precondition:
    """The precondition of a text element; ``name`` is the element or field that it tests."""
    same = "log" if name in _TESTS_OF_LOG else name
    if text.negated or text.expression is None:
        return Precondition(same, getter)
    known = Requirement(text.expression.literals, text.expression.first_bytes)
    return Precondition(same, getter, exact_values(text.content, text.kind), known)
