"""Hits of rules that are counted over the cluster, as nodes report them to each other.

A hit says that a node has an event which some composites count: their ids, and the values by which each compares
events, short or as digests. It holds no log and nothing that is ever run. ``form`` says what a composite counts and by
which fields: nodes whose rulesets differ there ignore each other's hits.
"""

from hashlib import blake2b
from typing import Annotated

from msgspec import Meta, Struct

MAX_HITS = 500
"""Hits, or firings, of one message."""
MAX_SENDERS = 64
"""Nodes whose hits are in one message of the master."""
MAX_VALUES = 64
"""Fields that a composite compares."""
MAX_COUNTED = 32
"""Composites that count one event."""
MAX_OCCURRENCES = 1000
_WHOLE_BYTES = 32
_DIGEST_BYTES = 16
_DIGEST_MARK = b"\xff#"

Value = Annotated[bytes, Meta(max_length=_WHOLE_BYTES)]
Values = Annotated[tuple[Value, ...], Meta(max_length=MAX_VALUES)]
RuleId = Annotated[int, Meta(ge=1, le=999_999)]
Milliseconds = Annotated[int, Meta(ge=0, le=1 << 52)]
"""Since 1970, by the clock of the node whose message it is in."""
Journal = Annotated[int, Meta(ge=0, le=9)]
Number = Annotated[int, Meta(ge=0, le=1 << 62)]


def short_value(value: bytes) -> bytes:
    """What stands for a value: itself, or its digest when it is long. Equal for equal values only."""
    if len(value) <= _WHOLE_BYTES:
        return value
    return _DIGEST_MARK + blake2b(value, digest_size=_DIGEST_BYTES).digest()


class Counted(Struct, frozen=True, array_like=True):
    """The values by which a composite counts an event: shared, to be different, and to be distinct."""

    rule: RuleId
    form: Annotated[bytes, Meta(min_length=8, max_length=8)]
    key: Values
    contrast: Annotated[tuple[Value | None, ...], Meta(max_length=MAX_VALUES)] = ()
    distinct: Values = ()


class Hit(Struct, frozen=True, array_like=True):
    """An event that composites count. ``journal`` and ``number``: its place on its node, equal when it is repeated.

    ``rule``: the one that the event had; ``occurrences``: how often composites by group count it; ``used``: level of
    the composite that the event itself has completed.
    """

    journal: Journal
    number: Number
    rule: RuleId
    time: Milliseconds
    agent: Annotated[str, Meta(pattern=r"^[0-9]{1,16}$")]
    occurrences: Annotated[int, Meta(ge=1, le=MAX_OCCURRENCES)]
    counted: Annotated[tuple[Counted, ...], Meta(min_length=1, max_length=MAX_COUNTED)]
    used: Annotated[int, Meta(ge=0, le=16)] = 0


class Firing(Struct, frozen=True, array_like=True):
    """A composite has fired: events up to ``newest``, the latest one that it counted, are used up; 0: it uses up none.

    ``journal``, ``number`` and ``time`` are those of the event that completed it; ``rule`` and ``counted`` are those of
    the newest one.
    """

    journal: Journal
    number: Number
    rule: RuleId
    time: Milliseconds
    newest: Milliseconds
    counted: Counted


class Hits(Struct, frozen=True, kw_only=True):
    """What one node has to report."""

    hits: Annotated[list[Hit], Meta(max_length=MAX_HITS)] = []
    firings: Annotated[list[Firing], Meta(max_length=MAX_HITS)] = []

    def __len__(self) -> int:
        return len(self.hits) + len(self.firings)


class HitsOf(Hits, frozen=True, kw_only=True):
    """What ``node`` has to report; its times are ``ahead`` seconds behind those of the reader."""

    node: Annotated[str, Meta(max_length=256)]
    ahead: Annotated[int, Meta(ge=-(10**6), le=10**6)] = 0
