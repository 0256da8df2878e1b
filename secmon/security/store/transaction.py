"""A write to the security store: rows change only here, and every change is recorded for replication."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, Table, and_, delete, func, insert, select, update

from secmon.common.errors import SecmonError
from secmon.common.sqlite.engine import attempt
from secmon.security.rbac.model import Settings
from secmon.security.store.position import AuditEnd, read_audit_end, write_audit_end
from secmon.security.store.replication import Key, Row, encode_row, row_key
from secmon.security.store.schema import (
    FIRST_CUSTOM_ID,
    LINKS,
    changes,
    column_names,
    is_shared,
    private_keys,
    sequences,
    signing_keys,
)
from secmon.security.store.view import load_settings


class RowChange(NamedTuple):
    """One row written, or deleted (``row`` None)."""

    table: str
    key: Key
    row: Row | None


class ReadTransaction:
    """Rows of the security store at one moment; handed out by ``SecurityStore.read()``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, table: Table, *key: int | str) -> Row | None:
        """The row with this primary key."""
        rows = self.select(table, **dict(zip(table.primary_key.columns.keys(), key, strict=True)))
        return rows[0] if rows else None

    def select(self, table: Table, *conditions: ColumnElement[bool], **equals: Any) -> list[Row]:
        """Rows that meet all conditions and whose columns equal the given values, in primary key order."""
        wanted = [*conditions, *(table.c[name] == value for name, value in equals.items())]
        found = self._connection.execute(select(table).where(*wanted).order_by(*table.primary_key.columns))
        names = column_names(table)
        return [dict(zip(names, row, strict=True)) for row in found]

    def count(self, table: Table) -> int:
        """How many rows the table has."""
        return int(self._connection.execute(select(func.count()).select_from(table)).scalar_one())

    def settings(self) -> Settings:
        """The security configuration."""
        return load_settings(self._connection)


class WriteTransaction(ReadTransaction):
    """Handed out by ``SecurityStore.write()``; lives as long as its ``with`` block.

    ``revision`` is the number that the store has once this transaction is committed, ``store_id`` its identity. A
    transaction that changes no row leaves both alone.
    """

    def __init__(self, connection: Connection, revision: int, store_id: str) -> None:
        super().__init__(connection)
        self.revision = revision
        self.store_id = store_id
        self.recorded = 0
        self.shared = False
        self.audit_lines = b""
        """What the audit log says of this transaction, and of those before it that were not committed."""

    @contextmanager
    def attempt(self, failed: Callable[[SecmonError], object]) -> Iterator[None]:
        """A part of this transaction that may fail alone: see :func:`secmon.common.sqlite.engine.attempt`.

        Of a part that failed nothing is recorded, so that neither replicas nor the audit log see it.
        """
        before = self.recorded, self.shared, self.store_id

        def restore(error: SecmonError) -> None:
            self.recorded, self.shared, self.store_id = before
            failed(error)

        with attempt(self._connection, restore):
            yield

    def changes(self) -> list[RowChange]:
        """The changes of this transaction so far, in order."""
        found = self._connection.execute(
            select(changes).where(changes.c.revision == self.revision).order_by(changes.c.ordinal)
        )
        return [
            RowChange(
                one.table,
                msgspec.msgpack.decode(one.key, type=Key),
                None if one.row is None else msgspec.msgpack.decode(one.row),
            )
            for one in found
        ]

    def put(self, table: Table, row: Row) -> None:
        """Insert ``row``, or replace the one with its key. All columns must be given."""
        if set(row) != set(table.c.keys()):
            raise ValueError(f"row of {table.name} needs exactly {sorted(table.c.keys())}")
        key = row_key(table, row)
        upsert(self._connection, table, key, row)
        self._record(table, key, encode_row(row))

    def delete(self, table: Table, *key: int | str) -> bool:
        """Delete a row and the links that refer to it; whether it existed."""
        for link, column in LINKS.get(table.name, ()):
            for row in self.select(link, **{column: key[0]}):
                self.delete(link, *row_key(link, row))
        gone = self._connection.execute(delete(table).where(matches(table, key))).rowcount
        if gone:
            self._record(table, key, None)
        return bool(gone)

    def keep_private_key(self, kid: str, pem: str) -> None:
        """Store the private half of the signing key ``kid``, on this node only; those of deleted keys are deleted."""
        known = select(signing_keys.c.kid)
        self._connection.execute(delete(private_keys).where(private_keys.c.kid.not_in(known)))
        self._connection.execute(insert(private_keys).values(kid=kid, pem=pem))

    def take_over(self) -> None:
        """Make a replica an origin: its revisions continue under an identity of its own."""
        self.store_id = str(uuid.uuid4())
        write_audit_end(self._connection, None)  # that of another log

    def audit_end(self) -> AuditEnd | None:
        """The last line of the audit log before this transaction."""
        return read_audit_end(self._connection)

    def set_audit_end(self, end: AuditEnd) -> None:
        """Note the line of this transaction. It is local bookkeeping: not recorded as a change, not replicated."""
        write_audit_end(self._connection, end)

    def next_id(self, table: Table) -> int:
        """An id that no row of ``table`` ever had (rbac.md 2)."""
        name = str(table.name)
        row = self.get(sequences, name)
        number = int(row["next_id"]) if row else FIRST_CUSTOM_ID
        self.put(sequences, {"name": name, "next_id": number + 1})
        return number

    def _record(self, table: Table, key: Key, row: bytes | None) -> None:
        values = {
            "revision": self.revision,
            "ordinal": self.recorded,
            "table": table.name,
            "key": msgspec.msgpack.encode(key),
            "row": row,
        }
        self._connection.execute(insert(changes), values)
        self.recorded += 1
        self.shared = self.shared or is_shared(table.name, key)


def matches(table: Table, key: Sequence[int | str]) -> ColumnElement[bool]:
    """The condition that selects the row with this primary key."""
    return and_(*(column == value for column, value in zip(table.primary_key.columns, key, strict=True)))


def upsert(connection: Connection, table: Table, key: Key, row: Row) -> None:
    """Write a row without recording it. Update first, so that rows that links point to are never deleted."""
    if not connection.execute(update(table).where(matches(table, key)).values(row)).rowcount:
        connection.execute(insert(table), row)
