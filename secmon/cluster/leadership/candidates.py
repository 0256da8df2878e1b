"""The nodes that look at the store of record: each states there whether it can become master, and what speaks for it.

The functions run in the transaction of the caller, by the clock of the database, and raise SQLAlchemy's DBAPIError.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, case, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from secmon.cluster.leadership.term import Term, TermRow
from secmon.cluster.record.schema import candidates
from secmon.cluster.rpc.version import MIN_PROTOCOL, PROTOCOL, spoken

PREFERENCE = 50
BEHIND = 100
"""Changes that a copy may lack and still count as up to date: a master that is at work is always ahead by a few."""
HAS_FAILED = "it has failed as master"
"""Begin of an obstacle that passes by itself."""
_FORGOTTEN_SECONDS = 86_400.0

_c = candidates.c
_clock = func.clock_timestamp()


class Candidate(NamedTuple):
    """A node, where it serves as master, and whether it can.

    ``obstacle``: why it cannot become master now; empty: it can. ``missing``: recorded changes that its copies lack.
    ``protocol``, ``min_protocol``: the generations of the link that it speaks.
    """

    node: str
    address: str
    port: int
    preference: int = PREFERENCE
    obstacle: str = ""
    missing: int = 0
    protocol: int = PROTOCOL
    min_protocol: int = MIN_PROTOCOL

    def at(self, other: "Candidate") -> bool:
        """Whether both are one node: of one name, at one place."""
        return self[:3] == other[:3]

    def holds(self, term: Term) -> bool:
        """Whether ``term`` is one of this node, and not of another one with its name."""
        return (self.node, self.address, self.port) == (term.holder, term.address, term.port)


def announce(connection: Connection, node: Candidate, within_seconds: float) -> None:
    """State that ``node`` is here. It has been since it was first seen, if never for ``within_seconds`` unseen."""
    row = insert(candidates).values(**node._asdict(), since=_clock, seen=_clock)
    stated = {name: row.excluded[name] for name in Candidate._fields[3:]}
    since = case((_recent(within_seconds), _c.since), else_=_clock)
    key = [_c.node, _c.address, _c.port]
    connection.execute(row.on_conflict_do_update(index_elements=key, set_=stated | {"seen": _clock, "since": since}))


def withdraw(connection: Connection, node: Candidate) -> None:
    """State that ``node`` is gone; forget what was not seen for a day, too."""
    connection.execute(delete(candidates).where(_of(node) | ~_recent(_FORGOTTEN_SECONDS)))


def announced(connection: Connection, within_seconds: float) -> Sequence[Candidate]:
    """The nodes that were seen within ``within_seconds``, by name and time."""
    found = select(*_FIELDS).where(_recent(within_seconds)).order_by(_c.node, _c.since, _c.address, _c.port)
    return [Candidate(*row) for row in connection.execute(found)]


def clash(me: Candidate, row: TermRow, found: Iterable[Candidate]) -> str:
    """Why this node may not use its name, if another one had it before. ``found``: by name and time."""
    first = next((each for each in found if each.node == me.node), me)
    held = row.term.holder == me.node and not me.holds(row.term) and not (row.expired or row.resigned)
    if first.at(me) and not held:
        return ""
    where = f"{row.term.address}:{row.term.port}" if held else f"{first.address}:{first.port}"
    return f"another node, at {where}, has the name {me.node}: give each node a name of its own"


def other_release(me: Candidate, row: TermRow, found: Iterable[Candidate]) -> str:
    """Why this node cannot go on for the last master: others speak generations of the link that it does not."""

    def speaks(one: Candidate) -> bool:
        return row.min_protocol <= one.protocol and one.min_protocol <= row.protocol

    if row.protocol == 0 or speaks(me) or not any(speaks(each) for each in found):
        return ""
    theirs, ours = spoken(row.protocol, row.min_protocol), spoken(me.protocol, me.min_protocol)
    return f"the other nodes speak {theirs} of the link, this release {ours}"


def goes_first(one: Candidate, other: Candidate) -> bool:
    """Whether ``one`` shall take over rather than ``other``: it is preferred, or as much, and more up to date."""
    return one.obstacle == "" and _rank(one) < _rank(other)


def may_follow(found: Iterable[Candidate]) -> list[str]:
    """The names of those that could take over from a master that does not see it: now, or without being changed."""
    return [each.node for each in found if not each.obstacle or each.obstacle.startswith(HAS_FAILED)]


def able(found: Iterable[Candidate]) -> list[str]:
    """The names of those that can become master."""
    return [each.node for each in found if not each.obstacle]


def _rank(one: Candidate) -> tuple[int, bool]:
    return -one.preference, one.missing > BEHIND


def _of(node: Candidate) -> ColumnElement[bool]:
    return (_c.node == node.node) & (_c.address == node.address) & (_c.port == node.port)


def _recent(seconds: float) -> ColumnElement[bool]:
    limit: ColumnElement[Any] = _clock - func.make_interval(0, 0, 0, 0, 0, 0, seconds)
    return _c.seen > limit


_FIELDS = [_c[name] for name in Candidate._fields]
