"""A term: one node's time as master, and the row of it in the store of record."""

from datetime import datetime, timedelta

import msgspec

TTL_SECONDS = 10


class Term(msgspec.Struct, frozen=True):
    """``number`` grows by one with each change of master; ``id`` is random: together they prove who writes.

    ``address`` and ``port`` are those of the holder's cluster port.
    """

    number: int
    id: str
    holder: str
    address: str
    port: int


class TermRow(msgspec.Struct, frozen=True):
    """The row as it was read. ``expired``: by the clock of the database.

    ``renewed`` differs after each renewal; it is compared with nothing but itself. ``protocol``, ``min_protocol``: the
    generations of the link that the holder speaks; 0: there was none yet.
    """

    term: Term
    since: datetime
    renewed: datetime
    ttl_seconds: int
    expired: bool
    resigned: bool
    successor: str
    reason: str
    protocol: int = 0
    min_protocol: int = 0

    @property
    def expires(self) -> datetime:
        """By the clock of the database."""
        return self.renewed + timedelta(seconds=self.ttl_seconds)
