"""What travels from the master's security store to the others', and back into rows."""

from typing import Any

import msgspec
from sqlalchemy import Table

from secmon.common.errors import SecmonError
from secmon.security.store.schema import REPLICATED

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
    """The whole replicated state. ``tables``: name to rows, each the column values in the order of ``columns``."""

    store_id: str
    revision: int
    schema_version: int
    columns: dict[str, tuple[str, ...]]
    tables: dict[str, list[tuple[Scalar, ...]]]


def encode_row(row: Row) -> bytes:
    return msgspec.msgpack.encode(row)


def replicated_table(name: str) -> Table:
    """The table called ``name``; anything that is not replicated is refused with 3045."""
    table = REPLICATED.get(name)
    if table is None:
        raise SecmonError(3045, f"unknown table {name!r}")
    return table


def decode_change(change: Change) -> tuple[Table, Key, Row | None]:
    """Check a received change against the schema. Raises 3045."""
    table = replicated_table(change.table)
    if len(change.key) != len(table.primary_key.columns):
        raise SecmonError(3045, f"bad key for table {table.name}")
    if change.row is None:
        return table, change.key, None
    try:
        row = msgspec.msgpack.decode(change.row, type=dict[str, Scalar])
    except msgspec.DecodeError as error:
        raise SecmonError(3045, f"bad row for table {table.name}") from error
    if set(row) != set(table.c.keys()) or row_key(table, row) != change.key:
        raise SecmonError(3045, f"row does not fit table {table.name}")
    return table, change.key, row


def row_key(table: Table, row: Row) -> Key:
    """The primary key of ``row``."""
    return tuple(row[column.name] for column in table.primary_key.columns)
