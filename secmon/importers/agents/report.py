"""Result of an import of agents: one line for each object of the source."""

from collections import Counter
from typing import Literal

from msgspec import Struct

Kind = Literal["agent", "removed", "groups", "group", "file", "counters"]
Result = Literal["imported", "present", "dropped", "warning", "refused"]


class Line(Struct, frozen=True):
    """``imported``: written; ``present``: there already; ``dropped``: not imported; ``warning``: needs a check;
    ``refused``: stops the import. Kind ``groups`` is the assignment of an agent, ``counters`` those of the link."""

    result: Result
    kind: Kind
    name: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.result:<10} {self.kind} {self.name}" + (f": {self.text}" if self.text else "")


class Report(Struct, frozen=True):
    """All lines in the order of the import; ``written`` when anything was changed."""

    lines: tuple[Line, ...]
    written: bool

    @property
    def refused(self) -> bool:
        return any(line.result == "refused" for line in self.lines)

    def counts(self) -> dict[str, int]:
        """How many lines there are of each result."""
        return dict(Counter(line.result for line in self.lines))


def shown(text: str) -> str:
    """A text of the source for display: short, without control characters."""
    safe = text if text.isascii() and text.isprintable() else ascii(text)
    return safe if len(safe) <= 64 else f"{safe[:64]}..."
