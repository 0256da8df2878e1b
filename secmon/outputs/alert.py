"""An alert as outputs see it: the line of alerts.json, and what they ask of it (ruleset.md 9.1)."""

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, Self

import msgspec

_COMPLIANCE = ("pci_dss", "cis", "gdpr", "gpg13", "hipaa", "nist_800_53", "tsc")
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Alert:
    """One alert. Values that are absent, or of another type than expected, are empty."""

    def __init__(self, line: bytes, offset: int = 0) -> None:
        """``offset`` of the line in its file. Raises ValueError for a line that is no JSON object."""
        try:
            self.fields: Mapping[str, Any] = _decode(line)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        self.line = line
        self.offset = offset

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """An alert that is decoded already."""
        return cls(msgspec.json.encode(fields))

    def text(self, *path: str) -> str:
        """The text or number at ``path``."""
        value = self._at(path)
        return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""

    def part(self, *path: str) -> Mapping[str, Any]:
        """The object at ``path``."""
        value = self._at(path)
        return value if isinstance(value, Mapping) else {}

    @property
    def level(self) -> int:
        value = self.part("rule").get("level")
        return value if isinstance(value, int) else 0

    @property
    def rule(self) -> str:
        """The id of the rule."""
        return self.text("rule", "id")

    @property
    def description(self) -> str:
        return self.text("rule", "description")

    @property
    def mail(self) -> bool:
        """Whether the rule wants mail for it: by its level or by an option of its own."""
        return self.part("rule").get("mail") is True

    @property
    def time(self) -> datetime | None:
        """When it was raised, with the zone of this host."""
        try:
            return datetime.fromisoformat(self.text("timestamp"))
        except ValueError:
            return None

    @cached_property
    def groups(self) -> str:
        """The groups of the rule as one text, each with a comma at its end: requirements are among them."""
        rule = self.part("rule")
        named = [(name, rule.get(name)) for name in ("groups", *_COMPLIANCE)]
        listed = [(name, value) for name, value in named if isinstance(value, list)]
        return "".join(f"{one}," if name == "groups" else f"{name}_{one}," for name, value in listed for one in value)

    @cached_property
    def place(self) -> str:
        """Where it comes from, as alerts.log has it: ``(agent) address->location`` or ``host->location``."""
        agent, location = self.part("agent"), self.text("location")
        if agent.get("id") in (None, "000"):
            return f"{self.text('manager', 'name')}->{location}"
        return f"({self.text('agent', 'name')}) {self.text('agent', 'ip') or 'any'}->{location}"

    @property
    def end(self) -> int:
        """Where the next line begins in the file."""
        return self.offset + len(self.line) + 1

    @property
    def document_id(self) -> str:
        """A name of this line of this node's files: the same whenever it is read."""
        node = self.text("cluster", "node") or self.text("manager", "name")
        return f"{node}-{self.text('id')}-{self.offset}"

    def _at(self, path: tuple[str, ...]) -> object:
        value: object = self.fields
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value
