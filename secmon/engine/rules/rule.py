"""A rule, as loaded (ruleset.md 6.1, 6.2)."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from secmon.engine.event import Event

Category = Literal["syslog", "firewall", "ids", "web-log", "squid", "windows", "ossec"]
Condition = Callable[[Event], bool]

DEFAULT_FREQUENCY = 2


@dataclass(frozen=True, slots=True)
class Mitre:
    """One reference of a rule: a technique, in the newer form with one of its tactics."""

    technique: str
    tactic: str | None = None


@dataclass(slots=True)
class Composite:
    """What makes a rule one of several events (ruleset.md 6.8, 6.9).

    ``same`` and ``different`` name static fields, ``location`` or, in the ``_fields`` forms, dynamic fields.
    """

    frequency: int = DEFAULT_FREQUENCY
    timeframe: int = 360
    sid: int | None = None
    group: bytes | None = None
    regex: Condition | None = None
    same: tuple[str, ...] = ()
    different: tuple[str, ...] = ()
    same_fields: tuple[str, ...] = ()
    different_fields: tuple[str, ...] = ()
    every_agent: bool = False


@dataclass(slots=True, eq=False)
class Rule:
    """One rule: what it asks of an event, and what it says about one.

    ``conditions`` stand in the order of ruleset.md 6.6. ``groups`` is the whole group string.
    """

    id: int
    level: int
    file: str
    line: int
    description: bytes = b""
    groups: bytes = b""
    category: Category = "syslog"
    noalert: bool = False
    accuracy: int = 1
    maxsize: int = 0
    ignore: int = 0
    """Seconds for which the rule stays silent after it has fired."""
    composite: Composite | None = None
    conditions: tuple[Condition, ...] = ()
    ignored_fields: tuple[str, ...] = ()
    """Fields of the ``ignore`` element."""
    check_ignored: tuple[str, ...] = ()
    """Fields of ``check_if_ignored``."""
    mail: bool = False
    write: bool = True
    active_response: bool = True
    full_log: bool = True
    counter: bool = True
    info: str | None = None
    cve: str | None = None
    mitre: tuple[Mitre, ...] = ()
    details: dict[str, object] = field(default_factory=dict)
    """Elements as the API shows them (analysis-api.md)."""

    children: list["Rule"] = field(default_factory=list)
    fired: int = 0
    silent_since: int | None = None
    sid_memory: "deque[Event] | None" = None
    """Events that this rule selected, when a composite asks for them by its id."""
    group_memories: list["deque[Event]"] = field(default_factory=list)
    """Memories of composites that ask for events of one of this rule's groups."""
