"""A term: one node's time as master."""

import msgspec


class Term(msgspec.Struct, frozen=True):
    """``number`` grows by one with each change of master; ``id`` is random: together they prove who writes.

    ``address`` and ``port`` are those of the holder's cluster port.
    """

    number: int
    id: str
    holder: str
    address: str
    port: int
