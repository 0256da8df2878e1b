"""What a node knows about who is master, and how that changes with what the database answers.

Times are readings of the host's boottime clock in seconds, which cannot be set and goes on while the host is suspended.
The time in the database is judged by the database alone (``TermRow.expired``).
"""

from dataclasses import dataclass, replace

import msgspec

from secmon.cluster.leadership.term import TTL_SECONDS, Term, TermRow


@dataclass(frozen=True, kw_only=True)
class Timing:
    """In seconds. ``contact``: between two renewals, or two looks; ``attempt`` bounds each of them."""

    ttl: float = TTL_SECONDS
    contact: float = 2.0
    attempt: float = 1.5
    successor: float = 3.0
    """For which a resigned term waits for the successor that it names, before any candidate takes over."""


@dataclass(frozen=True, kw_only=True)
class Resignation:
    """A request that this node ends its term. ``successor``: who shall follow; empty: any other node."""

    successor: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What a node knows."""

    node: str
    timing: Timing
    next_contact: float
    """When it is time for the next look or renewal."""
    address: str = ""
    port: int = 0
    """Where this node serves as master: a term is its own if it names the same place."""
    obstacle: str = "the database has not answered yet"
    """Why this node cannot become master now; empty: it can."""
    outranked: bool = False
    """Whether another node that can become master goes first."""
    row: TermRow | None = None
    """As read last; None before the first time."""
    watched_since: float | None = None
    """Since when the row was read again and again without change; None: the last attempt to read it has failed."""
    known: Term | None = None
    """The term that the node follows or holds."""
    holding: bool = False
    """Whether ``known`` is held by this node."""
    renewed: float | None = None
    """When the last successful renewal of the held term was sent."""
    suspended: bool = False
    """The lease of the held term may have run out, and this was noted."""
    resignation: Resignation | None = None
    shown: int = 0
    """The highest number of a term that other nodes have shown, and the node that did."""
    shown_by: str = ""
    held_off_until: float = 0.0
    """Until then this node takes over only as the named successor: it has failed as master."""

    def owns(self, term: Term) -> bool:
        """Whether ``term`` is one of this node, and not of another one with its name."""
        return (self.node, self.address, self.port) == (term.holder, term.address, term.port)

    @property
    def highest(self) -> int:
        """The highest number of a term that is known."""
        return max(self.shown, self.known.number if self.known else 0)

    @property
    def lease_end(self) -> float:
        """When the lease of the held term may run out."""
        return float("-inf") if self.renewed is None else self.renewed + self.timing.ttl

    def read(self, row: TermRow, at: float) -> "Snapshot":
        """After the row was read, and the answer came at the time ``at``."""
        same = self.row is not None and _without_expiry(self.row) == _without_expiry(row)
        since = self.watched_since if same and self.watched_since is not None else at
        return replace(self, row=row, watched_since=since)

    def unanswered(self) -> "Snapshot":
        """After an attempt that has failed: the row may have changed unseen."""
        return replace(self, watched_since=None)

    def renewed_at(self, sent: float) -> "Snapshot":
        """After the held term was renewed by what was sent at the time ``sent``."""
        return replace(self, renewed=sent, suspended=False)

    def begun(self, term: Term, sent: float) -> "Snapshot":
        """After this node has begun ``term`` by what was sent at the time ``sent``."""
        return replace(self, known=term, holding=True, renewed=sent, suspended=False, resignation=None)

    def following(self, term: Term) -> "Snapshot":
        """After this node has learned that another one holds ``term``."""
        return replace(self, known=term)

    def stepped_down(self) -> "Snapshot":
        """After the held term has ended."""
        row, known = self.row, self.known
        current = row.term if row is not None and row.term.number >= self.highest else known
        return replace(self, known=current, holding=False, renewed=None, suspended=False, resignation=None)


def _without_expiry(row: TermRow) -> TermRow:
    return msgspec.structs.replace(row, expired=False)
