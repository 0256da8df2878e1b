"""Looking into a SQLite store before it is opened for work: is the file whole, complete, and of a known version?"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from secmon.common.sqlite.faults import DAMAGE, fault_of
from secmon.common.sqlite.files import connect, folder_lock
from secmon.common.sqlite.schema import StoreSchema, UnknownVersion, newer, version_of

T = TypeVar("T")


class UnreadableStore(Exception):
    """A file that is not read: its permissions, a lock, the disk, a newer version. The text says what to do."""


class UnusableStore(Exception):
    """A file that is damaged. The text names file and cause."""


def look_into(file: Path, schema: StoreSchema, read: Callable[[sqlite3.Connection], T]) -> T | None:
    """What ``read`` finds in the store ``file``, which exists; None when the file has no tables at all.

    The structure of every page is checked first (about 3 seconds for a gigabyte), then version and tables. A store of
    an earlier version is in order: it is migrated at the start. Blocks. Raises UnreadableStore, UnusableStore.
    """
    try:
        with folder_lock(file.parent), closing(connect(file)) as connection:
            connection.execute("BEGIN")
            if not _check(file, connection, schema):
                return None
            return read(connection)
    except OSError as error:
        raise UnreadableStore(_unreadable(file, error.strerror)) from error
    except sqlite3.Error as error:
        # SQLITE_ERROR: a column is missing. Errors of Python's module have no code.
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGE | {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_OK}:
            raise UnusableStore(f"{file} is damaged ({error})") from error
        fault = fault_of(file, error)
        full = fault is not None and fault.error_code == 1021
        raise UnreadableStore(str(fault) if full else _unreadable(file, error)) from error
    except _Damaged as error:
        raise UnusableStore(f"{file} is damaged ({error})") from None


def _unreadable(file: Path, cause: object) -> str:
    advice = "check the owner and the permissions of the file and of its folder, and the disk"
    return f"{file} cannot be read ({cause}): {advice}"


class _Damaged(Exception):
    pass


def _check(file: Path, connection: sqlite3.Connection, schema: StoreSchema) -> bool:
    """Whether there are tables; raises unless they are those of a store that is whole."""
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _Damaged(" ".join(str(verdict).split()))
    try:
        version = version_of(connection.execute, schema)
    except UnknownVersion as error:
        raise _Damaged(f"version of its tables: {error}") from None
    if version is None:
        return False
    if version > schema.version:
        raise UnreadableStore(newer(file, version, schema))
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if version == schema.version and (missing := sorted(schema.metadata.tables.keys() - tables)):
        raise _Damaged(f"no table {missing[0]}")
    return True
