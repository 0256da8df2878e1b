"""PCRE2 by the library itself: byte mode, no options (ruleset.md 3.3)."""

import re
from typing import Any

import pcre2  # type: ignore[import-untyped]  # the package has no stubs

_BEGINNING = re.compile(rb"\^(?:\(\?i\))?([A-Za-z0-9 _\-:=<%])(?![?*{])")
"""Patterns whose first byte is known."""
_JIT_STACK = -46
"""PCRE2_ERROR_JIT_STACKLIMIT."""
_SHOWN = 200
"""Bytes of a pattern in messages."""


class PcreError(ValueError):
    """The pattern is not one of PCRE2; the text says why."""


class MatchLimit(Exception):
    """A pattern needs too many steps on a subject, so that the result is unknown. The event must still be reported."""


class Pcre:
    """A compiled PCRE2 expression.

    The library's own match limit bounds the time of a hostile pattern or subject. The compiled machine code has a small
    stack, too: a subject that exceeds it is tested again by the interpreter, which takes what it needs from the heap.
    """

    __slots__ = ("_pattern", "_text")

    def __init__(self, pattern: bytes) -> None:
        """Raises PcreError."""
        try:
            self._pattern = pcre2.compile(pattern)
        except (pcre2.PatternError, pcre2.LibraryError) as error:
            raise PcreError(str(error)) from None
        self._text = pattern

    @property
    def first_bytes(self) -> frozenset[int] | None:
        """The first byte of every match, in lower case; None when it can be any."""
        found = _BEGINNING.match(self._text)
        return None if found is None or b"|" in self._text else frozenset(found[1].lower())

    def test(self, subject: bytes) -> bool:
        """Raises MatchLimit."""
        return self._search(subject) is not None

    def capture(self, subject: bytes) -> tuple[int, list[bytes]] | None:
        """End index (-1 for an empty match at the start), and groups up to the last that took part.

        Raises MatchLimit.
        """
        found = self._search(subject)
        if found is None:
            return None
        groups = found.groups()
        while groups and groups[-1] is None:
            groups = groups[:-1]
        return found.end() - 1, [group or b"" for group in groups]

    def _search(self, subject: bytes) -> Any:
        try:
            return self._pattern.search(subject)
        except pcre2.LibraryError as error:
            if error.code != _JIT_STACK:
                raise self._limit(error) from None
        try:
            return pcre2.compile(self._text, jit=False).search(subject)
        except pcre2.LibraryError as error:
            raise self._limit(error) from None

    def _limit(self, error: Exception) -> MatchLimit:
        shown = self._text[:_SHOWN].decode("utf-8", "backslashreplace")
        return MatchLimit(f"the pattern {shown!r} costs too much on this event: {error}")
