"""What travels from the master's security store to the others', and back into rows.

Nodes of several releases work together: tables and columns that this one does not know are left out, columns that are
missing have their defaults, tables that are missing are empty.
"""

from typing import Any

import msgspec
from sqlalchemy import Table

from secmon.common.errors import SecmonError
from secmon.common.sqlite.schema import default_of
from secmon.security.store.schema import REPLICATED, column_names, metadata

Scalar = bool | int | str | None
Key = tuple[int | str, ...]
Row = dict[str, Any]


class Change(msgspec.Struct, frozen=True, array_like=True):
    """One row written or deleted (``row`` None) by the transaction that made ``revision``.

    ``key`` holds the primary key's columns in table order, ``row`` a msgpack map of column to value.
    """

    revision: int
    table: str
    key: Key
    row: bytes | None


class Snapshot(msgspec.Struct, frozen=True):
    """The whole replicated state. ``tables``: name to rows, each the column values in the order of ``columns``.

    ``schema_version`` is the version of the sender's tables; generation 2 of the link takes no other than its own.
    """

    store_id: str
    revision: int
    schema_version: int
    columns: dict[str, tuple[str, ...]]
    tables: dict[str, list[tuple[Scalar, ...]]]


def encode_row(row: Row) -> bytes:
    return msgspec.msgpack.encode(row)


def replicated_table(name: str) -> Table | None:
    """The table called ``name``; None for one of a later release. Raises 3045 for one that is not replicated."""
    if name in metadata.tables and name not in REPLICATED:
        raise SecmonError(3045, f"table {name!r} is not replicated")
    return REPLICATED.get(name)


def decode_change(change: Change) -> tuple[Table, Key, Row | None] | None:
    """Check a received change against the schema; None for a table of a later release. Raises 3045."""
    table = replicated_table(change.table)
    if table is None:
        return None
    if len(change.key) != len(table.primary_key.columns):
        raise SecmonError(3045, f"bad key for table {table.name}")
    if change.row is None:
        return table, change.key, None
    try:
        received = msgspec.msgpack.decode(change.row, type=dict[str, Scalar])
    except msgspec.DecodeError as error:
        raise SecmonError(3045, f"bad row for table {table.name}") from error
    row = known_row(table, received)
    if row_key(table, row) != change.key:
        raise SecmonError(3045, f"row does not fit table {table.name}")
    return table, change.key, row


def decode_rows(table: Table, snapshot: Snapshot) -> list[Row]:
    """The rows of a table in a received snapshot. Raises 3045."""
    columns = snapshot.columns.get(str(table.name), ())
    try:
        rows = [dict(zip(columns, row, strict=True)) for row in snapshot.tables.get(str(table.name), ())]
    except ValueError as error:
        raise SecmonError(3045, f"row does not fit table {table.name}") from error
    return [known_row(table, row) for row in rows]


def known_row(table: Table, received: Row) -> Row:
    """A row with exactly the columns of ``table``. Raises 3045 for a missing column that has no default."""
    try:
        return {name: received[name] if name in received else default_of(table.c[name]) for name in column_names(table)}
    except LookupError as error:
        raise SecmonError(3045, f"row of table {table.name} without column {error}") from None


def row_key(table: Table, row: Row) -> Key:
    """The primary key of ``row``."""
    return tuple(row[column.name] for column in table.primary_key.columns)
