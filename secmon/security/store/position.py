"""The position of a security store: identity, revision and the bookkeeping of caches, kept in ``meta``."""

from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from secmon.security.store.schema import meta


class Position(msgspec.Struct, frozen=True):
    """``store_id`` is empty on a replica that has received nothing yet.

    ``shared_revision`` is the last revision that touched rows that views keep whole in memory. ``generation`` counts
    the snapshots applied: content may differ between generations at equal revision; 0 in a store that is its own
    origin. ``log_floor`` is the oldest revision from which the change log leads to the present.
    """

    store_id: str
    revision: int = 0
    shared_revision: int = 0
    generation: int = 0
    log_floor: int = 0


class AuditEnd(NamedTuple):
    """Number and hash of the last line of the audit log whose change is committed."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> "AuditEnd":
        """Of ``SEQ:HASH``, as ``str`` gives it. Raises ValueError."""
        seq, _, digest = text.partition(":")
        if not (seq.isdecimal() and seq.isascii() and int(seq) and len(digest) == 64 and set(digest) <= _HEX):
            raise ValueError(f"{text!r} is not SEQ:HASH, a line's number and the 64 hexadecimal digits of its hash")
        return cls(int(seq), digest)


_HEX = frozenset("0123456789abcdef")
_AUDIT_END = "audit_end"


def read_audit_end(connection: Connection) -> AuditEnd | None:
    """None when no change of this store was written to an audit log yet."""
    text = connection.execute(select(meta.c.value).where(meta.c.name == _AUDIT_END)).scalar_one_or_none()
    return None if text is None else AuditEnd.parse(text)


def write_audit_end(connection: Connection, end: AuditEnd | None) -> None:
    connection.execute(delete(meta).where(meta.c.name == _AUDIT_END))
    if end is not None:
        connection.execute(insert(meta).values(name=_AUDIT_END, value=str(end)))


def create_position(connection: Connection, store_id: str) -> None:
    """Write the first position of a new store."""
    fields = msgspec.structs.asdict(Position(store_id))
    connection.execute(insert(meta), [{"name": name, "value": str(value)} for name, value in fields.items()])


def read_position(connection: Connection) -> Position:
    values = dict(connection.execute(select(meta.c.name, meta.c.value)).all())
    return msgspec.convert(values, Position, strict=False)


def write_position(connection: Connection, position: Position) -> None:
    for name, value in msgspec.structs.asdict(position).items():
        connection.execute(update(meta).where(meta.c.name == name).values(value=str(value)))
