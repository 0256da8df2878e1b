"""Reads the JSON of an event. Events are hostile input: a text that is refused here can suppress an alert.

So common faults of producers are accepted (ruleset.md 5.6): raw control characters, leading zeros, unknown escapes,
repeated names, bytes that are not UTF-8, numbers of any length. Of a long object whose end was cut on its way, the
complete values are read: a sender could otherwise hide an event behind a value of the maximum length. A text with other
faults (a missing bracket, an unterminated string) is not JSON.
"""

import json
import re
from typing import Any

MAX_DEPTH = 100
"""Levels of nested objects and arrays; deeper ones become null."""

CUT_FROM = 1000
"""Bytes of the shortest log that may have been cut on its way: some syslog senders cut at 1,024."""

Members = tuple[tuple[str, Any], ...]
"""An object: names and values in their order. Arrays are lists, other values what they are in the json module."""

_DECODER = json.JSONDecoder(object_pairs_hook=tuple, strict=False)
_BLANKS = "".join(map(chr, range(0x21)))
_MAX_DIGITS = 400
"""Digits; a longer number is read as infinite, or as zero."""
_TOKEN = re.compile(
    r"""(?P<text>"(?:[^"\\]++|\\.)*+")|(?P<number>-?(?:\d|\.\d)[\d.eE+-]*)|(?P<open>[{\[])|(?P<close>[}\]])|(?P<comma>,)"""
    r"""|(?P<blank>[\x00-\x20]++)|[^"{}\[\],\x00-\x20\d.-]++|.""",
    re.DOTALL | re.ASCII,
)
_CLOSING = {"{": "}", "[": "]"}
_ESCAPE = re.compile(r"""\\(?:u[0-9A-Fa-f]{4}|["\\/bfnrt])|\\""")
_CUT_ESCAPE = re.compile(r"""(?<!\\)((?:\\\\)*)\\(?:u[0-9A-Fa-f]{0,3})?\Z""")
_NUMBER = re.compile(r"(-?)0*(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?", re.ASCII)


def read_object(text: bytes, *, cut_text: bool = False) -> Members | None:
    """The object at the start of ``text``; anything may follow it. None when there is no object.

    Strings hold a byte that is not UTF-8 as with ``surrogateescape``, and half of a surrogate pair unchanged: see
    :func:`to_bytes`. ``cut_text``: a string whose end was cut is kept as far as it goes.
    """
    source = text.decode("utf-8", "surrogateescape").lstrip(_BLANKS)
    if not source.startswith("{"):
        return None
    try:
        value, _ = _DECODER.raw_decode(source)
    except (ValueError, RecursionError):
        try:
            value, _ = _DECODER.raw_decode(_repaired(source, cut_text=cut_text))
        except ValueError:
            return None
    return value  # type: ignore[no-any-return]


def to_bytes(text: str) -> bytes:
    """The bytes of a string of :func:`read_object`, also for halves of surrogate pairs."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return b"".join(_byte(one) if "\ud800" <= one <= "\udfff" else one.encode() for one in text)


def _byte(half: str) -> bytes:
    return half.encode("utf-8", "surrogateescape" if "\udc80" <= half <= "\udcff" else "surrogatepass")


def _repaired(text: str, *, cut_text: bool = False) -> str:
    """The first object of ``text`` as valid JSON.

    A long object without an end is closed after its last complete value; a short one yields an empty text.
    """
    parts: list[str] = []
    closings: list[str] = []
    whole = depth = 0  # parts up to the last complete value, and open brackets there
    for found in _TOKEN.finditer(text):
        kind, one = found.lastgroup, found[0]
        if kind == "open":
            closings.append(_CLOSING[one])
            if len(closings) == MAX_DEPTH + 1:
                parts.append("null")
        elif one == '"':  # an unterminated string
            if cut_text:
                parts.append(_token("text", _CUT_ESCAPE.sub(r"\1", text[found.start() :]) + '"'))
            break
        elif kind == "comma":
            whole, depth = len(parts), len(closings)
        if len(closings) <= MAX_DEPTH:
            parts.append(_token(kind, one))
        if kind == "close":
            closings.pop()
            whole, depth = len(parts), len(closings)
            if not closings:
                return "".join(parts)
    if len(text) < CUT_FROM:
        return ""
    before, last = ["", "", *(one for one in parts if one.strip())][-2:]
    if last.startswith('"') and before.endswith(":"):  # a value, not a name
        whole, depth = len(parts), len(closings)
    return "".join((*parts[:whole], *closings[: min(depth, MAX_DEPTH)][::-1]))


def _token(kind: str | None, one: str) -> str:
    if kind == "text":
        return _ESCAPE.sub(lambda found: found[0] if len(found[0]) > 1 else r"\\", one) if "\\" in one else one
    if kind == "blank":
        return " "
    return _number(one) if kind == "number" else one


def _number(one: str) -> str:
    found = _NUMBER.fullmatch(one)
    if found is None:
        return one  # two numbers, or none: the parser refuses it
    sign, whole, part, power = found.groups()
    if len(whole) > _MAX_DIGITS:
        return f"{sign}1e999"
    return f"{sign}{whole or 0}" + (f".{part}" if part else "") + (f"e{power}" if power else "")
