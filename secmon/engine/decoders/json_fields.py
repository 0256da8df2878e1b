"""The JSON_Decoder: an object flattened to fields, spelt exactly as rules match on them (ruleset.md 5.6)."""

import json
from collections.abc import Iterator
from typing import Any

from secmon.engine.decoders.decoder import Decoder
from secmon.engine.decoders.json_text import MAX_DEPTH, Members, read_object, to_bytes
from secmon.engine.event import Event, printable

STATIC_KEYS = {
    "srcip": "srcip",
    "dstip": "dstip",
    "srcport": "srcport",
    "dstport": "dstport",
    "protocol": "protocol",
    "action": "action",
    "srcuser": "srcuser",
    "dstuser": "dstuser",
    "id": "id",
    "status": "status",
    "url": "url",
    "data": "data",
    "extra_data": "extra_data",
    "systemname": "system_name",
}
"""Top-level keys that fill static fields."""

MAX_NAME = 1000
"""Characters of a field name; no rule names a longer one. It bounds the output of a long name above many values."""
_OBJECTS = (dict, tuple)
_INT_MOST, _INT_LEAST = 2**31 - 1, -(2**31)


def decode_json(event: Event, text: bytes, decoder: Decoder) -> None:
    """Flatten the JSON object at the start of ``text``, if there is one."""
    found = read_object(text)
    if found is not None:
        flatten(event, found, decoder)


def flatten(event: Event, value: Members | dict[str, Any], decoder: Decoder) -> None:
    """Fields of an object, depth first, in its order. Of a name that occurs twice, conditions see the first value."""
    given: set[str] = set()
    dynamic, limit = event.dynamic, event.field_limit
    old, new = decoder.json_prefix
    for name, item in _leaves(value):
        if new and name.startswith(old):
            name = new + name[len(old) :]
        static = STATIC_KEYS.get(name)
        if static in given or (static is None and (len(dynamic) >= limit or len(name) > MAX_NAME)):
            continue
        text = to_bytes(item) if type(item) is str else _text(item, decoder)
        if text is None:
            continue
        if static is None:
            event.add_dynamic(name, text)
        else:
            given.add(static)
            event.static[static] = text


def _leaves(value: Members | dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Values that are no objects, with the names on the way to them, in letters that have a UTF-8.

    Objects that lie too deep, or below names that are too long, are values without content.
    """
    stack = [("", _members(value))]
    while stack:
        prefix, items = stack[-1]
        for key, item in items:
            name = prefix + (key if key.isascii() else printable(to_bytes(key)))
            if not isinstance(item, _OBJECTS):
                yield name, item
            elif len(stack) < MAX_DEPTH and len(name) <= MAX_NAME:
                stack.append((f"{name}.", _members(item)))
                break
            else:
                yield name, None
        else:
            stack.pop()


def _members(value: Members | dict[str, Any]) -> Iterator[tuple[str, Any]]:
    return iter(value.items() if isinstance(value, dict) else value)


def _text(value: Any, decoder: Decoder) -> bytes | None:
    if isinstance(value, list):
        joined = _csv(value) if decoder.csv_arrays else pretty(value)
        return None if decoder.csv_arrays and not joined else to_bytes(joined)
    if value is None and decoder.discard_nulls:
        return None
    return to_bytes(scalar(value))


def scalar(value: Any) -> str:
    """The text of a value that is neither an object nor an array."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or value.is_integer():
        whole = max(_INT_LEAST, min(_INT_MOST, int(value)))
        if whole == value:
            return str(whole)
    try:
        return f"{value:f}"
    except OverflowError:  # an integer that no floating point number comes near to
        return "inf" if value > 0 else "-inf"


def _csv(values: list[Any]) -> str:
    return ",".join(scalar(one) for one in values if not isinstance(one, tuple | list))


def pretty(value: Any) -> str:
    """The text of an array; public rules match its tabs and line ends."""
    parts: list[str] = []
    _write(value, 0, parts)
    return "".join(parts)


def _write(value: Any, depth: int, parts: list[str]) -> None:
    if isinstance(value, list | tuple) and depth >= MAX_DEPTH:
        parts.append("null")
    elif isinstance(value, list):
        parts.append("[")
        for number, one in enumerate(value):
            parts.append(", " if number else "")
            _write(one, depth + 1, parts)
        parts.append("]")
    elif isinstance(value, tuple):
        inner = "\t" * (depth + 1)
        parts.append("{\n")
        for number, (key, one) in enumerate(value):
            parts += (",\n" if number else "", inner, _quoted(key), ":\t")
            _write(one, depth + 1, parts)
        parts.append(("\n" if value else "") + "\t" * depth + "}")
    else:
        parts.append(_leaf(value))


def _leaf(value: Any) -> str:
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.15g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _quoted(value) if isinstance(value, str) else scalar(value)


_quoted = json.JSONEncoder(ensure_ascii=False).encode
