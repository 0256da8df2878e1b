"""Who shall be master, decided by a pure function of what a node knows and its own time::

    follower --Claim--> taking over --become master--> master --Resign--> master until another claims
        ^                    |                            |
        +------StepDown------+-------------StepDown-------+

:func:`decide` returns the one transition that is due, with its reason; ``leader`` executes it and then asks again.
"""

from dataclasses import dataclass

from secmon.cluster.leadership.snapshot import Snapshot
from secmon.cluster.leadership.term import Term, TermRow


@dataclass(frozen=True)
class Observe:
    """Read the row."""

    reason: str


@dataclass(frozen=True)
class Renew:
    """Renew the held term and read the row."""

    reason: str


@dataclass(frozen=True)
class Claim:
    """Begin a new term after ``seen``."""

    seen: Term
    reason: str


@dataclass(frozen=True)
class Follow:
    """``term`` of another node is the current one."""

    term: Term
    reason: str


@dataclass(frozen=True)
class StepDown:
    """The held term is over."""

    reason: str


@dataclass(frozen=True)
class Suspend:
    """Accept no change until the database answers."""

    reason: str


@dataclass(frozen=True)
class Resign:
    """Let ``successor`` begin the next term."""

    successor: str
    reason: str


@dataclass(frozen=True)
class Stay:
    """Nothing is due before ``until``, unless something happens."""

    until: float
    reason: str


Transition = Observe | Renew | Claim | Follow | StepDown | Suspend | Resign | Stay


def decide(snapshot: Snapshot, now: float) -> Transition:
    """The transition that is due at ``now``."""
    return _as_holder(snapshot, now) if snapshot.holding else _as_follower(snapshot, now)


def _as_holder(known: Snapshot, now: float) -> Transition:
    held, row = known.known, known.row
    assert held is not None, "a holder knows its term"
    if known.shown > held.number:
        return StepDown(f"{known.shown_by} knows term {known.shown}")
    if row is not None and not _same(row.term, held):
        return StepDown(_ended(held, row.term))
    resigned = row is not None and row.resigned
    if now >= known.next_contact:
        return Observe("nobody has followed yet") if resigned else Renew("it is time")
    if known.resignation is not None and not resigned and known.watched_since is not None:
        return Resign(known.resignation.successor, known.resignation.reason)
    if row is not None and resigned and (why := _free(known, row, now)) is not None:
        return Claim(row.term, why)
    if now >= known.lease_end and not known.suspended and not resigned:
        return Suspend("the lease of this term may have run out: no change is accepted until the database answers")
    return Stay(known.next_contact, "this node is the master")


def _as_follower(known: Snapshot, now: float) -> Transition:
    row = known.row
    if now >= known.next_contact:
        return Observe("it is time")
    if row is None:
        return Stay(known.next_contact, "the database has not answered yet")
    if row.term.holder and not known.owns(row.term) and _succeeds(row.term, known.known):
        return Follow(row.term, row.reason)
    if (why := _free(known, row, now)) is not None:
        return Claim(row.term, why)
    return Stay(known.next_contact, f"{row.term.holder or 'no node'} is the master")


def _free(known: Snapshot, row: TermRow, now: float) -> str | None:
    """Why this node may begin a term after that of ``row`` now; None: it may not."""
    if known.watched_since is None or known.obstacle:
        return None
    if row.resigned and row.successor == known.node:
        return row.reason
    if now < known.held_off_until:
        return None
    watched = now - known.watched_since
    if known.highest > row.term.number:
        return f"the database has lost term {known.highest}"
    own = known.owns(row.term)
    if own and not row.resigned:
        return "this node was the master and has started again"
    if known.outranked:
        watched -= known.timing.successor
    if row.term.holder == "":
        return "the cluster had no master" if watched >= 0 else None
    if row.resigned:
        waits = known.timing.successor if row.successor or own else 0.0
        return row.reason if watched >= waits else None
    if row.expired and watched >= known.timing.ttl:
        return f"{row.term.holder} has not renewed its term for {now - known.watched_since:.0f} s"
    return None


def _succeeds(term: Term, known: Term | None) -> bool:
    """Whether ``term`` is not the known one, nor an earlier one."""
    return known is None or (term.number >= known.number and not _same(term, known))


def _ended(held: Term, current: Term) -> str:
    if current.number > held.number:
        return f"term {held.number} is over: {current.holder or 'another node'} has begun term {current.number}"
    return f"the database does not know term {held.number} of this node: it has lost its last changes"


def _same(one: Term, other: Term) -> bool:
    return (one.number, one.id) == (other.number, other.id)
