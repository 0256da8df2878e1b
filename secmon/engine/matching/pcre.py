"""PCRE2 by the library itself: byte mode, no options (ruleset.md 3.3)."""

import logging
import re

import pcre2  # type: ignore[import-untyped]  # the package has no stubs

log = logging.getLogger("secmon.engine.matching")

_BEGINNING = re.compile(rb"\^(?:\(\?i\))?([A-Za-z0-9 _\-:=<%])(?![?*{])")
"""Of patterns whose first byte can be read off."""


class PcreError(ValueError):
    """The pattern is not one of PCRE2; the text says why."""


class Pcre:
    """A compiled PCRE2 expression.

    The library's own match limit bounds the time of a hostile pattern or subject: reaching it counts as no match, and
    is logged once for each pattern.
    """

    __slots__ = ("_pattern", "_text", "_warned")

    def __init__(self, pattern: bytes) -> None:
        """Raises PcreError."""
        try:
            self._pattern = pcre2.compile(pattern)
        except (pcre2.PatternError, pcre2.LibraryError) as error:
            raise PcreError(str(error)) from None
        self._text = pattern
        self._warned = False

    @property
    def first_bytes(self) -> frozenset[int] | None:
        """The byte, in lower case, that whatever matches begins with; None when that may be any."""
        found = _BEGINNING.match(self._text)
        return None if found is None or b"|" in self._text else frozenset(found[1].lower())

    def test(self, subject: bytes) -> bool:
        try:
            return self._pattern.search(subject) is not None
        except pcre2.LibraryError as error:
            return self._gave_up(error)

    def capture(self, subject: bytes) -> tuple[int, list[bytes]] | None:
        """End index (-1 for an empty match at the start), and groups up to the last that took part."""
        try:
            found = self._pattern.search(subject)
        except pcre2.LibraryError as error:
            self._gave_up(error)
            return None
        if found is None:
            return None
        groups = found.groups()
        while groups and groups[-1] is None:
            groups = groups[:-1]
        return found.end() - 1, [group or b"" for group in groups]

    def _gave_up(self, error: Exception) -> bool:
        if not self._warned:
            self._warned = True
            log.warning("The pattern %r costs too much on some events, which it does not match: %s", self._text, error)
        return False
