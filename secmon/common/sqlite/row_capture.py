"""Which rows a transaction has changed, noted by the database itself: by triggers that only this connection has."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Column, Connection, Engine, MetaData, Table, Text, and_, delete, event, func, select

Row = dict[str, Any]

_changed = Table(
    "changed_rows",
    MetaData(schema="temp"),
    Column("table", Text, primary_key=True),
    Column("key", Text, primary_key=True),  # JSON array of the primary key
)


class ChangedRow(NamedTuple):
    """``key`` is the JSON array of the primary key; ``row`` None: it was deleted."""

    table: str
    key: str
    row: Row | None


class Captured(NamedTuple):
    """A table whose changes are noted: those of ``columns``, of rows whose key is among ``only`` if that is given."""

    table: Table
    columns: tuple[str, ...]
    only: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(str(column.name) for column in self.table.primary_key.columns)

    def wants(self, key: str) -> bool:
        return not self.only or msgspec.json.decode(key)[0] in self.only


class RowCapture:
    """Notes the changes of some tables on all connections of an engine."""

    def __init__(self, engine: Engine, tables: Sequence[Captured]) -> None:
        """The tables exist."""
        self._tables: Mapping[str, Captured] = {str(one.table.name): one for one in tables}
        statements = [*_preparation(), *(text for one in tables for text in _triggers(one))]
        engine.dispose()  # connections that are open have no triggers

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _record: object) -> None:
            for statement in statements:
                connection.execute(statement)

    def begin(self, connection: Connection) -> None:
        """Forget what was noted before; at the begin of a transaction."""
        connection.execute(delete(_changed))

    def changes(self, connection: Connection) -> list[ChangedRow]:
        """The rows that are different since ``begin``, or were, as they are now; by table and key."""
        return [row for one in self._tables.values() for row in _changes(connection, one)]


def all_rows(connection: Connection, captured: Captured) -> Iterator[ChangedRow]:
    """Every row of a table, as if each were new; by key."""
    columns = [captured.table.c[column] for column in captured.columns]
    key = [captured.table.c[column] for column in captured.key]
    for values in connection.execute(select(func.json_array(*key), *columns).order_by(*key)):
        if captured.wants(values[0]):
            yield ChangedRow(str(captured.table.name), values[0], dict(zip(captured.columns, values[1:], strict=True)))


def all_columns(table: Table) -> tuple[str, ...]:
    return tuple(str(column.name) for column in table.c)


def _changes(connection: Connection, captured: Captured) -> Iterator[ChangedRow]:
    """Every noted key of the table, with the row of that key if there is one."""
    table, name = captured.table, str(captured.table.name)
    parts = [func.json_extract(_changed.c.key, f"$[{place}]") for place in range(len(captured.key))]
    same = [table.c[column] == part for column, part in zip(captured.key, parts, strict=True)]
    columns = [table.c[column] for column in captured.columns]
    joined = _changed.outerjoin(table, onclause=and_(*same))
    found = select(_changed.c.key, table.c[captured.key[0]].is_not(None), *columns).select_from(joined)
    for key, present, *values in connection.execute(found.where(_changed.c.table == name).order_by(_changed.c.key)):
        if captured.wants(key):
            yield ChangedRow(name, key, dict(zip(captured.columns, values, strict=True)) if present else None)


def _preparation() -> Iterator[str]:
    yield "PRAGMA temp_store = MEMORY"
    yield "PRAGMA recursive_triggers = ON"  # else rows that a REPLACE deletes are not noted
    yield 'CREATE TEMP TABLE changed_rows ("table" TEXT, key TEXT, PRIMARY KEY ("table", key))'


def _triggers(captured: Captured) -> Iterator[str]:
    """One for each kind of change. An update that names none of the columns is no change."""
    name = captured.table.name
    columns = ", ".join(f'"{column}"' for column in dict.fromkeys((*captured.key, *captured.columns)))
    for kind, events, sides in (
        ("inserted", "INSERT", ("NEW",)),
        ("deleted", "DELETE", ("OLD",)),
        ("updated", f"UPDATE OF {columns}", ("OLD", "NEW")),
    ):
        notes = "".join(_note(captured, side) for side in sides)
        yield f'CREATE TEMP TRIGGER "{kind}_{name}" AFTER {events} ON main."{name}" BEGIN {notes} END'


def _note(captured: Captured, side: str) -> str:
    key = ", ".join(f'{side}."{column}"' for column in captured.key)
    return f"INSERT OR IGNORE INTO changed_rows VALUES ('{captured.table.name}', json_array({key}));"  # noqa: S608
