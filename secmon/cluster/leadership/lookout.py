"""One look at the store of record: who is master, which nodes are there, and whether this one could take over."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from secmon.cluster.leadership import candidates, terms
from secmon.cluster.leadership.candidates import PREFERENCE, Candidate
from secmon.cluster.leadership.snapshot import Snapshot, Timing
from secmon.cluster.leadership.term import TermRow
from secmon.cluster.record.readiness import Readiness
from secmon.common.clock import Clock

LOOKS = 3
"""A node that was not seen for so many looks is gone."""
LOOK_INSIDE_SECONDS = 10.0
"""Between two looks at what this node needs as master, while there is one."""


class Reading(NamedTuple):
    """What one attempt has read."""

    row: TermRow | None
    me: Candidate
    candidates: Sequence[Candidate]
    done: bool
    """Whether the change of the attempt was made."""


class LeaderSettings(NamedTuple):
    """``address``: of this node for the others; empty: that of its connection to the database.

    ``preference``: of those that can take over, the one with the highest goes first.
    """

    node: str
    candidate: bool
    address: str
    port: int
    timing: Timing = Timing()
    preference: int = PREFERENCE


class Lookout:
    """Used in one thread at a time."""

    def __init__(
        self,
        settings: LeaderSettings,
        ready: Callable[[Connection], Readiness],
        clock: Clock,
        local_address: Callable[[], str],
    ) -> None:
        """``ready`` says whether this node could be the master; it blocks. ``local_address``: while it is connected."""
        self._settings, self._ready, self._clock, self._local_address = settings, ready, clock, local_address
        self._within = LOOKS * settings.timing.contact
        self._readiness, self._next_look_inside = Readiness(), clock.boottime()
        self.failure = ""
        """Why this node has failed as master last."""

    @property
    def place(self) -> Candidate:
        """This node, while the database is connected."""
        settings = self._settings
        return Candidate(settings.node, settings.address or self._local_address(), settings.port, settings.preference)

    def look(self, connection: Connection, known: Snapshot, done: bool) -> Reading:
        """Read the row and the candidates, and state what this node is. ``done`` is passed on."""
        row, me = terms.look(connection), self.place
        found = candidates.announced(connection, self._within)
        if row is not None:
            me = self._as_candidate(connection, row, found, known)
            candidates.announce(connection, me, self._within)
        return Reading(row, me, sorted([*(each for each in found if not each.at(me)), me]), done)

    def _as_candidate(
        self, connection: Connection, row: TermRow, found: Sequence[Candidate], known: Snapshot
    ) -> Candidate:
        """This node, and what keeps it from becoming master."""
        me, now = self.place, self._clock.boottime()
        if not self._settings.candidate:
            return me._replace(obstacle="its configuration says so (candidate)")
        if now < known.held_off_until:
            return me._replace(obstacle=f"{candidates.HAS_FAILED}: {self.failure}")
        if known.holding:
            return me
        if obstacle := candidates.clash(me, row, found) or candidates.other_release(me, row, found):
            return me._replace(obstacle=obstacle)
        if self._readiness.obstacle or now >= self._next_look_inside or row.expired or row.resigned:
            self._readiness, self._next_look_inside = self._ready(connection), now + LOOK_INSIDE_SECONDS
        return me._replace(obstacle=self._readiness.obstacle, missing=self._readiness.missing)
