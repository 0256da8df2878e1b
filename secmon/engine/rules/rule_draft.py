"""A rule as read from its element: checked, but not yet in the tree (ruleset.md 6.1 to 6.3)."""

from collections.abc import Callable
from dataclasses import dataclass, field

from secmon.engine.rules.condition_groups import ConditionGroup
from secmon.engine.rules.rule import Category, Condition, Mitre, Precondition
from secmon.engine.rules.text_conditions import TextElement
from secmon.engine.rules.time_conditions import TimeTest
from secmon.engine.ruleset.cdb_list import Lookup


@dataclass(slots=True)
class ListLookup:
    """A ``list`` element: a look-up in a CDB list."""

    path: str
    field: str
    lookup: Lookup
    value: bytes | None


@dataclass(slots=True)
class Draft:
    """The content of a ``rule`` element."""

    id: int
    level: int
    file: str
    line: int
    maxsize: int = 0
    timeframe: int = 360
    frequency: int | None = None
    accuracy: int = 1
    ignore: int = 0
    noalert: bool = False
    overwrite: bool = False
    side_tree: bool = False
    texts: dict[str, TextElement] = field(default_factory=dict)
    fields: list[tuple[str, TextElement]] = field(default_factory=list)
    condition_groups: list[ConditionGroup] = field(default_factory=list)
    addresses: dict[str, tuple[list[str], bool]] = field(default_factory=dict)
    address_tests: dict[str, Callable[[bytes], bool]] = field(default_factory=dict)
    time: TimeTest | None = None
    weekday: TimeTest | None = None
    decoded_as: list[tuple[str, int]] = field(default_factory=list)
    """Names of decoders, each with its line; all must be known, and the last one counts."""
    category: Category | None = None
    lists: list[ListLookup] = field(default_factory=list)
    predicate: Condition | None = None
    parents: dict[str, str] = field(default_factory=dict)
    """``if_sid``, ``if_group``, ``if_level``, ``if_matched_sid``, ``if_matched_group`` by name."""
    matched_regex: bytes | None = None
    first_time: bool = False
    check_diff: bool = False
    same: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    same_fields: list[str] = field(default_factory=list)
    different_fields: list[str] = field(default_factory=list)
    distinct_fields: list[str] = field(default_factory=list)
    matched_all: tuple[int, ...] = ()
    in_order: bool = False
    every_agent: bool = False
    ignored_fields: tuple[str, ...] = ()
    check_ignored: tuple[str, ...] = ()
    groups: bytes = b""
    description: bytes | None = None
    info: str | None = None
    cve: str | None = None
    options: set[str] = field(default_factory=set)
    mitre: list[Mitre] = field(default_factory=list)
    conditions: tuple[Condition, ...] = ()
    """Those that depend on nothing but this element, in their order."""
    preconditions: tuple[Precondition, ...] = ()

    @property
    def is_composite(self) -> bool:
        by_rule = "if_matched_sid" in self.parents or "if_matched_group" in self.parents or bool(self.matched_all)
        return by_rule or self.matched_regex is not None
