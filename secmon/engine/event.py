"""An event on its way through the engine (ruleset.md 4.2, 5.5). Texts are bytes, as they came."""

from collections import deque
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from secmon.engine.cluster_hits.cluster_memory import Elsewhere
    from secmon.engine.decoders.decoder import Decoder
    from secmon.engine.rules.rule import Rule

STATIC = (
    "protocol",
    "action",
    "srcip",
    "srcport",
    "srcuser",
    "dstip",
    "dstport",
    "dstuser",
    "id",
    "status",
    "url",
    "data",
    "extra_data",
    "system_name",
)
"""Names of the static fields, in the order in which alerts show them (ruleset.md 9.1)."""

MANAGER_ID = "000"
SYSLOG = "syslog"


CompositeKey = tuple[str | bytes, ...]
"""The values that events share when a composite counts them together."""
Contrast = tuple[bytes | None, ...]
"""The values in which events must differ to be counted together."""
Run = tuple[Contrast, "list[Event]"]
"""Events that follow each other with the same values of that kind, oldest first."""
CompositeMemory = dict[CompositeKey, "deque[Run]"]
"""Events of one composite, oldest first, by key."""


def printable(value: bytes) -> str:
    r"""The bytes of a log as text; a byte that is not UTF-8 is written as ``\xff``."""
    return value.decode("utf-8", "backslashreplace")


@dataclass(slots=True, eq=False)
class Event:
    """One event.

    ``log`` is what decoders and rules see, ``full_log`` what was received. ``location`` begins with
    ``(name) address->`` when it came from an agent. ``time`` is when it is processed, in local time with its zone;
    ``received`` the same moment in whole seconds since 1970. ``timestamp`` is the text of the log's own header.
    """

    queue: str
    location: bytes
    full_log: bytes
    log: bytes
    time: datetime
    received: int
    agent_id: str = MANAGER_ID
    agent_name: bytes = b""
    hostname: bytes = b""
    program_name: bytes | None = None
    timestamp: bytes | None = None
    size: int = 0

    decoder: "Decoder | None" = None
    """The selected decoder; its options count."""
    parent: str | None = None
    """Name of the root decoder, when a child was selected by its prematch."""
    category: str = SYSLOG
    static: dict[str, bytes] = field(default_factory=dict)
    dynamic: list[tuple[str, bytes]] = field(default_factory=list)
    """Names are valid UTF-8 even where the log is not: see :func:`printable`."""
    names: dict[str, bytes] = field(default_factory=dict)
    """Dynamic fields by name in lower case; the first of each name."""
    field_limit: int = 256
    """Dynamic fields that decoders may set."""

    rule: "Rule | None" = None
    rule_id: int = 0
    """The id of ``rule``, also when another ruleset has replaced that."""
    bound_rule: int | None = None
    """A forwarded alert names its rule itself (ruleset.md 5.7)."""
    memories: list[tuple[CompositeMemory, CompositeKey]] = field(default_factory=list)
    """Memories of composites that hold the event, each with its key."""
    occurrences: int = 1
    """How often composites by group count the event: once for each place of its rule in the tree (ruleset.md 6.7)."""
    used_by_level: int = 0
    """Level of the composite that this event has completed; 0: none."""
    elsewhere: "Elsewhere | None" = None
    """Events of other nodes among those that completed it."""
    previous: list[bytes] = field(default_factory=list)
    """Logs of the events that completed a composite, or the previous output of ``check_diff``."""
    previous_log: bytes | None = None
    plain: dict[str, bytes | None] | None = None
    """Values without escapes and derived ones, by name in lower case, as far as rules have asked for them."""
    in_side_tree: bool = False
    """A twin, on which the rules of side trees work."""
    first_seen: bool = False
    """A finding that is new in the store of the agent (rootcheck)."""

    def twin(self) -> "Event":
        """The same event before any rule: what rules do to one of the two does not show in the other."""
        made = copy(self)
        made.rule, made.rule_id, made.memories, made.occurrences, made.used_by_level = None, 0, [], 1, 0
        made.previous, made.previous_log, made.elsewhere, made.in_side_tree = [], None, None, True
        return made

    @property
    def milliseconds(self) -> int:
        """``time`` since 1970."""
        return int(self.time.timestamp() * 1000)

    @property
    def from_agent(self) -> bool:
        return self.agent_id != MANAGER_ID

    @property
    def fields_full(self) -> bool:
        """Whether the event has as many dynamic fields as it may have."""
        return len(self.dynamic) >= self.field_limit

    def add_dynamic(self, name: str, value: bytes) -> None:
        """The first value of a name counts, all are shown."""
        self.dynamic.append((name, value))
        self.names.setdefault(name.lower(), value)

    def dynamic_value(self, name: str) -> bytes | None:
        """A dynamic field by its name in lower case."""
        return self.names.get(name)
