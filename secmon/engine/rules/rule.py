"""A rule as loaded (ruleset.md 6.1, 6.2). Rules never change after the load: what changes is in ``State``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, Protocol

from secmon.engine.event import CompositeKey, Contrast, Event
from secmon.engine.matching import Expression
from secmon.engine.matching.pattern_index import ANY, Requirement
from secmon.engine.memory.fts import static_or_location
from secmon.engine.memory.state import State

Category = Literal["syslog", "firewall", "ids", "web-log", "squid", "windows", "ossec"]
Condition = Callable[[Event, State], bool]
Getter = Callable[[Event], bytes | None]
"""A text of an event; None: the event lacks it."""

DEFAULT_FREQUENCY = 2
ALERT_LEVEL, MAIL_LEVEL = 1, 7
"""Defaults of ``log_alert_level`` and ``email_alert_level``."""


@dataclass(frozen=True, slots=True)
class Mitre:
    """One reference of a rule: a technique; in the newer form with one of its tactics."""

    technique: str
    tactic: str | None = None


@dataclass(slots=True)
class Composite:
    """The events that a composite rule counts (ruleset.md 6.8, 6.9).

    ``same`` and ``different`` name static fields or ``location``; the ``_fields`` forms dynamic fields in lower case.
    One of ``sid``, ``group``, ``regex`` and ``each`` selects the events that count. ``each``: there must be one of each
    of these rules, in their order with ``in_order``. ``distinct_fields``: of events with the same values of these, the
    present one included, one counts.
    """

    frequency: int = DEFAULT_FREQUENCY
    timeframe: int = 360
    sid: int | None = None
    group: bytes | None = None
    regex: Expression | None = None
    same: tuple[str, ...] = ()
    different: tuple[str, ...] = ()
    same_fields: tuple[str, ...] = ()
    different_fields: tuple[str, ...] = ()
    distinct_fields: tuple[str, ...] = ()
    same_values: tuple["Getter", ...] = ()
    distinct_values: tuple["Getter", ...] = ()
    """Of ``same_fields`` and ``distinct_fields``."""
    each: tuple[int, ...] = ()
    in_order: bool = False
    every_agent: bool = False
    in_cluster: bool = False
    """Events of other nodes count too."""

    @property
    def needed(self) -> int:
        """Earlier events that complete it."""
        return len(set(self.each)) or max(self.frequency, 2) - 1

    @property
    def compared(self) -> tuple[int, int, int]:
        """How many values are shared, are to be different, and to be distinct."""
        by_agent = 0 if self.every_agent else 1
        dynamic = len(self.different_fields) + 1 if self.different_fields else 0
        return (
            by_agent + len(self.same) + len(self.same_values),
            len(self.different) + dynamic,
            len(self.distinct_fields),
        )

    @property
    def form(self) -> bytes:
        """What it counts, and by which fields, in 8 bytes: nodes compare it."""
        parts = (
            *(self.sid, self.group, self.each, self.every_agent, self.same, self.same_fields),
            *(self.different, self.different_fields, self.distinct_fields),
        )
        return blake2b(repr(parts).encode(), digest_size=8).digest()

    def key(self, event: Event) -> CompositeKey | None:
        """The key that an earlier event must have too to count with ``event``; None: no event can."""
        parts: list[str | bytes] = [] if self.every_agent else [event.agent_id]
        for name in self.same:
            value = static_or_location(event, name)
            if value is None:
                return None
            parts.append(value)
        for get in self.same_values:
            value = get(event)
            if value is None:
                return None
            parts.append(value)
        return tuple(parts)

    def contrast(self, event: Event) -> Contrast:
        """The values in which an earlier event must differ to count with ``event``; None differs from every value.

        Two events without any dynamic field do not differ in one (ruleset.md 6.9): they share a value of their own.
        """
        values = [static_or_location(event, name) for name in self.different]
        if self.different_fields:
            values += [event.names.get(name) for name in self.different_fields]
            values.append(None if event.dynamic else b"")
        return tuple(values)

    def counts_same_events(self, other: "Composite") -> bool:
        """Whether both count the same events, and their memories are kept alike."""
        mine, others = (
            (
                *(one.sid, one.group, one.regex, one.each, one.every_agent),
                *(one.same, one.same_fields, one.different, one.different_fields),
            )
            for one in (self, other)
        )
        return mine == others


@dataclass(frozen=True, slots=True)
class Precondition:
    """A text of the event that a rule tests: an index skips the rule for events that lack the text or fail here.

    ``text`` is a name of the text, the same for all rules. ``values``: all that can match, in lower case; otherwise
    ``requirement`` says what is known.
    """

    text: str
    getter: Getter
    values: frozenset[bytes] | None = None
    requirement: Requirement = ANY


def selectivity(one: Precondition) -> tuple[bool, int]:
    """How much a precondition says: more than another one of the same text if it is greater."""
    literals = one.requirement.literals
    return one.values is not None, min(map(len, literals), default=0) if literals else 0


class Candidates(Protocol):
    """An index of children."""

    def candidates(self, event: Event) -> Sequence["Rule"]:
        """Children that can match, in their order."""


@dataclass(slots=True, eq=False)
class Rule:
    """One rule: its conditions, and what its alerts say.

    ``conditions`` are in the order of ruleset.md 6.6. ``groups`` is the whole group string.
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
    ignore: int = 0
    """Seconds after the rule has fired in which it does not alert."""
    composite: Composite | None = None
    decoder: int | None = None
    """The id of ``decoded_as``."""
    conditions: tuple[Condition, ...] = ()
    preconditions: tuple[Precondition, ...] = ()
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

    children: list["Rule"] = field(default_factory=list)
    composites_by_id: tuple["Rule", ...] = ()
    """Composites that count the events of this rule by its id (``if_matched_sid``)."""
    composites_by_group: tuple["Rule", ...] = ()
    """Composites that count them by group; only used without ``composites_by_id`` (ruleset.md 14, Q8)."""
    composites_in_cluster: tuple["Rule", ...] = ()
    """Those of them that count events of other nodes too."""
    occurrences: int = 1
    """Places of the rule in the tree: one for each place of each parent."""

    index: "Candidates | None" = None
    """Finds the children that an event can match; None: all are evaluated."""
    weight: int = 0
    """Siblings are tried in falling order: level 0 first, ``accuracy="0"`` last (ruleset.md 6.4, Q6). An overwrite
    changes it, but moves no rule."""

    def __post_init__(self) -> None:
        self.weight = self.level if self.accuracy == 0 else (self.level or 99) * 100
