"""PCRE2 by the library itself: byte mode, no options (ruleset.md 3.3)."""

import re
from typing import Any

import pcre2  # type: ignore[import-untyped]  # the package has no stubs

from secmon.engine.matching.pcre_literals import is_one_alternative, literals_of
from secmon.engine.matching.results import Found, MatchLimit

_BEGINNING = re.compile(
    rb"\^(?:\(\?i\))?(?:([A-Za-z0-9 _\-:=<%])|\\(d)|\\(w)|\\([^A-Za-z0-9]))(?:\{[1-9]\d*(?:,\d*)?\}|\+)?(?![?*{])"
)
"""Patterns whose first byte is known: a plain byte, a digit, a letter of a word or an escaped byte."""
_DIGITS = frozenset(b"0123456789")
_WORD = _DIGITS | frozenset(b"abcdefghijklmnopqrstuvwxyz_")
_JIT_STACK = -46
"""PCRE2_ERROR_JIT_STACKLIMIT."""


class PcreError(ValueError):
    """The pattern is not one of PCRE2; the text says why."""


class Pcre:
    """A compiled PCRE2 expression.

    The library's own match limit bounds the time of a hostile pattern or subject. The compiled machine code has a small
    stack, too: a subject that exceeds it is tested again by the interpreter, which takes what it needs from the heap.
    """

    __slots__ = ("_pattern", "_text", "literals")

    def __init__(self, pattern: bytes) -> None:
        """Raises PcreError."""
        try:
            self._pattern = pcre2.compile(pattern)
        except (pcre2.PatternError, pcre2.LibraryError) as error:
            raise PcreError(str(error)) from None
        self._text = pattern
        self.literals = literals_of(pattern)

    @property
    def first_bytes(self) -> frozenset[int] | None:
        """The first byte of every match, in lower case; None when it can be any."""
        found = _BEGINNING.match(self._text)
        if found is None or not is_one_alternative(self._text):
            return None
        plain, digit, word, escaped = found.groups()
        return _DIGITS if digit else _WORD if word else frozenset((plain or escaped).lower())

    def test(self, subject: bytes) -> bool:
        """Raises MatchLimit."""
        return self._search(subject) is not None

    def search(self, subject: bytes) -> int | None:
        """The end index, -1 for an empty match at the start. Raises MatchLimit."""
        found = self._search(subject)
        return None if found is None else found.end() - 1

    def capture(self, subject: bytes) -> Found | None:
        """End index (-1 for an empty match at the start), and groups up to the last that took part.

        Raises MatchLimit.
        """
        found = self._search(subject)
        if found is None:
            return None
        groups = found.groups()
        while groups and groups[-1] is None:
            groups = groups[:-1]
        return Found(found.end() - 1, [group or b"" for group in groups])

    def _search(self, subject: bytes) -> Any:
        try:
            return self._pattern.search(subject)
        except pcre2.LibraryError as error:
            if error.code != _JIT_STACK:
                raise MatchLimit(self._text, error) from None
        try:
            return pcre2.compile(self._text, jit=False).search(subject)
        except pcre2.LibraryError as error:
            raise MatchLimit(self._text, error) from None
