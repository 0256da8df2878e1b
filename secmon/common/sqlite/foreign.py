"""SQLite files that others wrote, which may hold anything: nothing in them is run, and memory is bounded."""

import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import literal_column, select, table

MAX_FILE = 1 << 30
MAX_VALUE = 1 << 20
"""Bytes of the file and of one value in it."""
MAX_ROWS = 1_000_000
MAX_BYTES = 512 << 20
"""Of all values that are read of a file. Pages of a damaged one may be part of many rows."""

Row = Mapping[str, Any]


class ForeignError(ValueError):
    """The file is not read; the text says why."""


class ForeignConnection(sqlite3.Connection):
    """``left``: bytes of values that may still be read."""

    left = MAX_BYTES


@contextmanager
def open_foreign(path: Path) -> Iterator[ForeignConnection]:
    """The file as it is at one moment, never written to. Raises ForeignError, sqlite3.Error, OSError."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE:
        raise ForeignError(f"not a file of at most {MAX_FILE >> 20} MiB")
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, isolation_level=None, factory=ForeignConnection)) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
        for pragma in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN")
        yield connection


def read_table(connection: ForeignConnection, names: Sequence[str]) -> list[Row]:
    """All rows of the first of these tables that exists.

    Views, virtual tables and columns that are computed are refused: they make of a small file as much as they please.
    Raises ForeignError, sqlite3.Error.
    """
    schema = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    real = {name for name, sql in schema if isinstance(sql, str) and not sql.upper().startswith("CREATE VIRTUAL")}
    name = next((name for name in names if name in real), None)
    if name is None:
        raise ForeignError(f"table {names[0]} is missing")
    if any(hidden for (hidden,) in connection.execute("SELECT hidden FROM pragma_table_xinfo(?)", (name,))):
        raise ForeignError(f"table {name} has computed columns")
    cursor = connection.execute(str(select(literal_column("*")).select_from(table(name))))
    columns = [column[0] for column in cursor.description]
    rows: list[Row] = []
    for values in cursor:
        connection.left -= sum(len(value) for value in values if isinstance(value, str | bytes))
        if connection.left < 0:
            raise ForeignError(f"its tables have more than {MAX_BYTES >> 20} MiB")
        if len(rows) == MAX_ROWS:
            raise ForeignError(f"table {name} has more than {MAX_ROWS} rows")
        rows.append(dict(zip(columns, values, strict=True)))
    return rows
