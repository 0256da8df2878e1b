"""The JSON_Decoder: an object flattened to fields, spelt exactly as rules match on them (ruleset.md 5.6)."""

import json
from collections.abc import Iterator
from typing import Any

from secmon.engine.decoders.decoder import Decoder
from secmon.engine.event import Event

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

FIELD_LIMIT = 256
MAX_DEPTH = 200
_INT_MOST, _INT_LEAST = 2**31 - 1, -(2**31)
_DECODER = json.JSONDecoder()


def decode_json(event: Event, text: bytes, decoder: Decoder) -> None:
    """Flatten the JSON object that ``text`` begins with; nothing happens when it is none."""
    try:
        value, _ = _DECODER.raw_decode(text.decode("utf-8", "surrogateescape").lstrip(" \t\r\n"))
        fields = list(_fields(value, decoder)) if isinstance(value, dict) else []
    except (ValueError, RecursionError):
        return
    _assign(event, fields)


def flatten(event: Event, value: dict[str, Any], decoder: Decoder) -> None:
    """Fields of an object, depth first, in its order."""
    _assign(event, list(_fields(value, decoder)))


def _assign(event: Event, fields: list[tuple[str, bytes]]) -> None:
    for path, text in fields:
        static = STATIC_KEYS.get(path)
        if static is not None:
            event.static[static] = text
        elif len(event.dynamic) < FIELD_LIMIT:
            event.add_dynamic(path, text)


def _fields(value: dict[str, Any], decoder: Decoder) -> Iterator[tuple[str, bytes]]:
    stack: list[tuple[str, Iterator[tuple[str, Any]]]] = [("", iter(value.items()))]
    while stack:
        prefix, items = stack[-1]
        found = next(items, None)
        if found is None:
            stack.pop()
            continue
        key, item = found
        path = f"{prefix}{key}"
        if isinstance(item, dict):
            if len(stack) < MAX_DEPTH:
                stack.append((f"{path}.", iter(item.items())))
            continue
        text = _text(item, decoder)
        if text is not None:
            yield path, text


def _text(value: Any, decoder: Decoder) -> bytes | None:
    if isinstance(value, list):
        joined = _csv(value) if decoder.csv_arrays else pretty(value)
        return None if decoder.csv_arrays and not joined else _encode(joined)
    if value is None and decoder.discard_nulls:
        return None
    return _encode(scalar(value))


def scalar(value: Any) -> str:
    """A value that is no object and no array, as a field shows it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    whole = max(_INT_LEAST, min(_INT_MOST, int(value))) if value == value and abs(value) != float("inf") else None
    return str(whole) if whole is not None and whole == value else f"{value:f}"


def _csv(values: list[Any]) -> str:
    return ",".join(scalar(one) for one in values if not isinstance(one, dict | list))


def pretty(value: Any, depth: int = 0) -> str:
    """An array as it is written again: tabs and line ends are part of what public rules match."""
    if isinstance(value, list):
        return "[" + ", ".join(pretty(one, depth + 1) for one in value) + "]"
    if isinstance(value, dict):
        inner = "\t" * (depth + 1)
        members = [f"{inner}{_quoted(key)}:\t{pretty(one, depth + 1)}" for key, one in value.items()]
        return "{\n" + ",\n".join(members) + ("\n" if members else "") + "\t" * depth + "}"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.15g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _quoted(value) if isinstance(value, str) else scalar(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a pair, written as an escape
        return text.encode("utf-8", "replace")
