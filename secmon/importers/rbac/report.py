"""Result of an import: one line for each object that needs a remark."""

from collections import Counter
from typing import Literal

import msgspec

Kind = Literal["user", "role", "policy", "rule", "user-role", "role-policy", "role-rule"]
Result = Literal["imported", "renamed", "renumbered", "merged", "present", "password", "dropped", "warning", "refused"]

SHOWN_NAME = 64


class Line(msgspec.Struct, frozen=True):
    """``id`` and ``name`` are the source's; of a link, ``id`` is the owner's and ``name`` names both ends.

    - ``imported``, ``renamed``, ``renumbered``: written, unchanged or as ``text`` says
    - ``merged``: an equal body is there, links go to it; ``present``: from an earlier import, not changed
    - ``password``: the password of a default user was imported
    - ``dropped``: not imported; ``warning``: imported, needs a check; ``refused``: unusable, stops the import
    """

    result: Result
    kind: Kind
    id: int | None
    name: str
    text: str = ""

    def __str__(self) -> str:
        number = "" if self.id is None else f" {self.id}"
        return f"{self.result:<10} {self.kind}{number} {self.name}" + (f": {self.text}" if self.text else "")


class Report(msgspec.Struct, frozen=True):
    """All lines, in the order of the import; ``written`` when the store was changed."""

    lines: tuple[Line, ...]
    written: bool

    @property
    def refused(self) -> bool:
        """Whether something in the source stopped the import."""
        return any(line.result == "refused" for line in self.lines)

    def counts(self) -> dict[str, int]:
        """How many lines there are of each result."""
        return dict(Counter(line.result for line in self.lines))


def shown(value: object) -> str:
    """A value of the source for display: short, without control characters."""
    text = value if isinstance(value, str) and value.isascii() and value.isprintable() else ascii(value)
    return text if len(text) <= SHOWN_NAME else f"{text[:SHOWN_NAME]}..."
