"""What a pattern gives back: a match, or none because the search costs too much."""

from typing import NamedTuple


class Found(NamedTuple):
    """A match: the index of the last byte consumed (with the exceptions of ruleset.md 3.2), and the groups."""

    end: int
    groups: list[bytes]


class MatchLimit(Exception):
    """A pattern needs too many steps on a subject, so that the result is unknown. The event must still be reported."""

    SHOWN = 200
    """Bytes of a pattern in messages."""

    def __init__(self, pattern: bytes, reason: object) -> None:
        shown = pattern[: self.SHOWN].decode("utf-8", "backslashreplace")
        super().__init__(f"the pattern {shown!r} costs too much on this event: {reason}")
