"""The code of OS_Regex patterns, which the parser writes and the matcher reads (ruleset.md 3.2, Compiled form)."""

from typing import NamedTuple

ESC, NUL = ord("E"), ord("N")
"""Besides literals, which are in lower case: a class follows; the end."""
MARK = ord("(")
"""An opening or closing parenthesis. A literal one is an escape, so the byte is free; but where two marks are adjacent,
the matcher compares the second one with the subject as this byte, and may match it."""
PLUS, STAR = ord("+"), ord("*")

_EVERY = bytes(range(256))
_DIGITS = b"0123456789"
_WORD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-@_" + _DIGITS
_CLASSES: dict[bytes, set[int]] = {
    b"w": set(_WORD),
    b"d": set(_DIGITS),
    b"s": set(b" "),
    b"t": set(b"\t"),
    b"p": set(b"!\"#$%&'()*+,-.:;<=>?[]{|}"),
    b"W": set(_EVERY) - set(_WORD),
    b"D": set(_EVERY) - set(_DIGITS),
    b"S": set(_EVERY) - set(b" "),
    b".": set(_EVERY),
} | {literal: set(literal) for literal in (b"(", b")", b"\\", b"$", b"|", b"<")}
CLASS_NUMBERS = {ord(name): number for number, name in enumerate(_CLASSES)}
"""The number of a class, which follows ESC, by the byte that follows the backslash."""
MEMBERS = bytes(byte in members for members in _CLASSES.values() for byte in _EVERY)
"""1 at index ``number * 256 + byte`` if the class has the byte, otherwise 0."""
LOWER = _EVERY.lower()
"""The lower case of each byte."""


class Alternative(NamedTuple):
    """One alternative of a pattern."""

    code: bytes
    """Its items, and four NULs."""
    begin: bool
    end: bool
    """Anchors."""
    prefix: bytes
    """The literal start of every match, in lower case."""
    required: bytes
    """The longest literal of every match, in lower case."""
    marks: tuple[int, ...]
    """Indexes of parentheses in the code."""
