"""What an import of Sigma rules did with each of them."""

from collections import Counter
from typing import Literal

from msgspec import Struct

Result = Literal["imported", "counted", "untranslated", "unreadable", "removed"]
"""
- ``imported``: a rule of ours; ``counted``: its events only count for correlations, as Sigma wants it
- ``untranslated``: our language has no equivalent, or the mapping does not know the log source or a field
- ``unreadable``: not a Sigma rule
- ``removed``: imported before, and no longer there
"""


class SigmaLine(Struct, frozen=True, omit_defaults=True):
    """One document, or a rule that is no longer there. ``id`` is ours, ``uuid`` that of Sigma."""

    result: Result
    place: str
    title: str = ""
    uuid: str = ""
    id: int | None = None
    reason: str = ""


class SigmaReport(Struct, frozen=True):
    """All lines in the order of the files; ``written`` when files were changed."""

    lines: tuple[SigmaLine, ...]
    written: bool

    def counts(self) -> dict[str, int]:
        """The number of lines of each result."""
        return dict(Counter(line.result for line in self.lines))

    def reasons(self) -> list[tuple[str, int]]:
        """Why rules were not translated, the most frequent first."""
        return Counter(line.reason for line in self.lines if line.result == "untranslated").most_common()
