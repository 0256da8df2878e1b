"""The report of an import: one line for each thing that it looked at, and whether anything was written."""

from collections import Counter
from typing import Literal

from msgspec import Struct

Kind = Literal[
    "agent", "removed", "groups", "group", "file", "counters", "user", "role", "policy", "rule", "user-role",
    "role-policy", "role-rule", "section", "ruleset", "inventory",
]  # fmt: skip
"""``removed``: the id of a removed agent. ``groups``: the assignment of an agent. ``counters``: those of the link.
``section``: of the main configuration. ``inventory``: what hosts have reported."""

Result = Literal["imported", "renamed", "renumbered", "merged", "present", "password", "dropped", "warning", "refused"]
"""
- ``imported``, ``renamed``, ``renumbered``: written, unchanged or as ``text`` says
- ``merged``: an equal body exists, links refer to it; ``present``: nothing to write
- ``password``: the password of a default user was replaced
- ``dropped``: not imported; ``warning``: needs the attention of the operator; ``refused``: stops the import
"""

MAX_NAME = 64


class ReportLine(Struct, frozen=True):
    """``name`` and ``id`` are those of the source; of a link, ``id`` is the owner's and ``name`` has both ends."""

    result: Result
    kind: Kind
    name: str
    text: str = ""
    id: int | None = None

    def __str__(self) -> str:
        number = "" if self.id is None else f" {self.id}"
        return f"{self.result:<10} {self.kind}{number} {self.name}" + (f": {self.text}" if self.text else "")


class Report(Struct, frozen=True):
    """All lines, in the order of the import; ``written`` when anything was changed."""

    lines: tuple[ReportLine, ...]
    written: bool

    @property
    def refused(self) -> bool:
        """Whether something in the source stopped the import."""
        return any(line.result == "refused" for line in self.lines)

    def counts(self) -> dict[str, int]:
        """The number of lines of each result."""
        return dict(Counter(line.result for line in self.lines))


def printable(value: object) -> str:
    """A value of the source as a short text without control characters."""
    text = value if isinstance(value, str) and value.isascii() and value.isprintable() else ascii(value)
    return text if len(text) <= MAX_NAME else f"{text[:MAX_NAME]}..."
