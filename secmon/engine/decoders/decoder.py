"""A decoder, and the trees that decoders form (ruleset.md 5.1, 5.3)."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from secmon.engine.matching import Expression

Category = Literal["syslog", "firewall", "ids", "web-log", "squid", "windows", "host-information", "ossec"]


class Offset(Enum):
    """Where in the log a pattern is applied."""

    NONE = ""
    AFTER_PARENT = "after_parent"
    AFTER_PREMATCH = "after_prematch"
    AFTER_REGEX = "after_regex"


@dataclass(slots=True, eq=False)
class Decoder:
    """One decoder. ``id`` is what ``decoded_as`` of rules compares; a child has its parent's, unless it has its own.

    ``continued``: a later sibling of the same name continues where this one ends. ``fts``: fields of the first-time
    key (ruleset.md 8.1); names of static fields, then dynamic ones.
    """

    name: str
    file: str
    line: int
    position: int = 0
    """Its place in its file, from 0, as the API counts."""
    id: int = 0
    own_name: str = ""
    """The name in its file: ``name`` becomes the parent's."""
    parent: str | None = None
    use_own_name: bool = False
    program_name: Expression | None = None
    any_program: bool = False
    """An empty ``program_name``."""
    prematch: Expression | None = None
    prematch_offset: Offset = Offset.NONE
    regex: Expression | None = None
    regex_offset: Offset = Offset.NONE
    order: tuple[str, ...] = ()
    plugin: str | None = None
    plugin_offset: Offset = Offset.NONE
    category: Category = "syslog"
    fts: tuple[str, ...] = ()
    ftscomment: str | None = None
    accumulate: bool = False
    discard_nulls: bool = False
    csv_arrays: bool = False
    json_prefix: tuple[str, str] = ("", "")
    """Beginning of names of JSON_Decoder, and its replacement; names that begin otherwise are unchanged."""
    continued: bool = False
    children: list["Decoder"] = field(default_factory=list)

    @property
    def has_program(self) -> bool:
        return self.program_name is not None or self.any_program


INTERNAL = (
    "rootcheck",
    "syscheck_integrity_changed",
    "syscheck_new_entry",
    "syscheck_deleted",
    "syscheck_registry_key_modified",
    "syscheck_registry_key_added",
    "syscheck_registry_key_deleted",
    "syscheck_registry_value_modified",
    "syscheck_registry_value_added",
    "syscheck_registry_value_deleted",
    "hostinfo_new",
    "hostinfo_modified",
    "syscollector",
    "ciscat",
    "windows_eventchannel",
    "sca",
)
"""Names that exist without a file (ruleset.md 5.8)."""
DECODED_LOGS = ("json",)
"""Names of decoders of logs whose events can also come decoded already: the same rules see them."""


@dataclass
class Decoders:
    """All decoders of a ruleset: roots with a program name, roots without, and ids by name."""

    with_program: list[Decoder] = field(default_factory=list)
    without_program: list[Decoder] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    internal: dict[str, Decoder] = field(default_factory=dict)

    def roots(self, name: str) -> list[Decoder]:
        """Every root of this name."""
        return [one for one in (*self.with_program, *self.without_program) if one.name == name]
