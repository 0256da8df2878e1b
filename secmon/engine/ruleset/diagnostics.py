"""Warnings and errors of the loaders of a ruleset (ruleset.md 15)."""

from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["WARNING", "ERROR", "CRITICAL"]

MAX_MESSAGES = 50
"""Messages kept of one load."""


@dataclass(frozen=True, slots=True)
class Message:
    """One finding. ``line`` is 0 when it concerns a file as a whole."""

    severity: Severity
    number: int
    text: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        """As logs and the API show it."""
        return f"{self.severity}: {self.detail()}"

    def detail(self) -> str:
        """Number, text and place, without the severity."""
        place = f" ({self.file}, line {self.line})" if self.line else f" ({self.file})" if self.file else ""
        return f"({self.number}): {self.text}{place}"


class RulesetError(Exception):
    """The ruleset does not load; ``message`` says where and why."""

    def __init__(self, number: int, text: str, *, file: str = "", line: int = 0) -> None:
        self.message = Message("ERROR", number, text, file, line)
        super().__init__(str(self.message))


@dataclass
class Diagnostics:
    """Collects the warnings of a load."""

    messages: list[Message] = field(default_factory=list)

    def add(self, message: Message) -> None:
        if len(self.messages) < MAX_MESSAGES:
            self.messages.append(message)

    def warn(self, number: int, text: str, *, file: str = "", line: int = 0) -> None:
        self.add(Message("WARNING", number, text, file, line))
