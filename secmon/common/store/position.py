"""Where a security store stands: its identity, revision and the bookkeeping of caches, kept in ``meta``."""

import msgspec
from sqlalchemy import Connection, insert, select, update

from secmon.common.store.schema import meta


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


def create_position(connection: Connection, store_id: str) -> None:
    """Write the first position of a new store."""
    fields = msgspec.structs.asdict(Position(store_id))
    connection.execute(insert(meta), [{"name": name, "value": str(value)} for name, value in fields.items()])


def read_position(connection: Connection) -> Position:
    values = dict(connection.execute(select(meta.c.name, meta.c.value)).all())
    values.pop("schema_version", None)
    return msgspec.convert(values, Position, strict=False)


def write_position(connection: Connection, position: Position) -> None:
    for name, value in msgspec.structs.asdict(position).items():
        connection.execute(update(meta).where(meta.c.name == name).values(value=str(value)))
