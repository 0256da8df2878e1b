"""One interface for the pattern languages, chosen by the ``type`` of an element (ruleset.md 3.5)."""

from functools import lru_cache
from typing import Literal, Protocol

from secmon.engine.matching.osmatch import MAX_PATTERN, OSMatch
from secmon.engine.matching.osregex import OSRegex, OSRegexError
from secmon.engine.matching.pcre import Pcre, PcreError
from secmon.engine.matching.results import Found
from secmon.engine.matching.value_tests import Comparison, Networks

Kind = Literal["osmatch", "osregex", "pcre2", "string", "cidr", "number"]


CACHE_SIZE = 32768
"""Compiled patterns that are kept for the next load of a ruleset."""


class PatternError(ValueError):
    """The text is not a pattern of its language."""


class Expression(Protocol):
    """A compiled pattern. Each test may raise MatchLimit."""

    @property
    def first_bytes(self) -> frozenset[int] | None:
        """The possible first bytes of a match, in lower case; None when it can be any."""

    @property
    def literals(self) -> tuple[bytes, ...] | None:
        """Texts in lower case, one of which every match contains; None when none is known."""

    def test(self, subject: bytes) -> bool:
        """Whether it matches."""

    def search(self, subject: bytes) -> int | None:
        """The end index of the match."""

    def capture(self, subject: bytes) -> Found | None:
        """End index and groups of the match."""


@lru_cache(maxsize=CACHE_SIZE)
def compile_expression(kind: Kind, pattern: bytes) -> Expression:
    """Raises PatternError. Compiled once, however often a ruleset is loaded: an expression has no state."""
    try:
        match kind:
            case "osmatch":
                return _Match(pattern)
            case "osregex":
                return OSRegex(pattern)
            case "pcre2":
                return Pcre(pattern)
            case "string":
                return _Text(pattern)
            case "cidr":
                return Networks(pattern)
            case "number":
                return Comparison(pattern)
    except (OSRegexError, PcreError, ValueError) as error:
        raise PatternError(str(error)) from None


class _Match:
    """OS_Match knows no end index: a match counts as one of the whole subject."""

    __slots__ = ("literals", "matcher", "test")
    first_bytes = None

    def __init__(self, pattern: bytes) -> None:
        if len(pattern) > MAX_PATTERN:
            raise PatternError(f"it is longer than {MAX_PATTERN} bytes")
        self.matcher = OSMatch(pattern)
        self.test = self.matcher.test
        known = self.matcher.literals
        self.literals = None if known is None else tuple(known)

    def search(self, subject: bytes) -> int | None:
        return len(subject) - 1 if self.test(subject) else None

    def capture(self, subject: bytes) -> Found | None:
        return Found(len(subject) - 1, []) if self.test(subject) else None


class _Text:
    """Equality; only of the rule element ``action``."""

    __slots__ = ("literals", "text")
    first_bytes = None

    def __init__(self, pattern: bytes) -> None:
        self.text = pattern
        self.literals = (pattern.lower(),)

    def test(self, subject: bytes) -> bool:
        return subject == self.text

    def search(self, subject: bytes) -> int | None:
        return len(subject) - 1 if subject == self.text else None

    def capture(self, subject: bytes) -> Found | None:
        return Found(len(subject) - 1, []) if subject == self.text else None
