"""Looking into a SQLite store before it is opened for work: is the file whole, complete, and of a known version?"""

import sqlite3
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TypeVar

from secmon.common.sqlite.files import connect, folder_lock

DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""Primary result codes of SQLite for a file that is not whole."""

T = TypeVar("T")


class Expected(NamedTuple):
    """What a store has to be. ``version``: a query for the schema version; ``known``: the one we work with."""

    tables: Collection[str]
    version: str
    known: int


class UnreadableStore(Exception):
    """A file that cannot be read just now: its permissions, a lock, the disk. The text says what to look at."""


class UnusableStore(Exception):
    """A file that is damaged, or of another version. The text names file and cause."""


def look_into(file: Path, expected: Expected, read: Callable[[sqlite3.Connection], T]) -> T | None:
    """What ``read`` finds in the store ``file``, which exists; None when the file has no tables at all.

    The structure of every page is checked first (about 3 seconds for a gigabyte), then tables and version. Blocks.
    Raises UnreadableStore, UnusableStore.
    """
    try:
        with folder_lock(file.parent), closing(connect(file)) as connection:
            connection.execute("BEGIN")
            if not _check(connection, expected):
                return None
            return read(connection)
    except OSError as error:
        raise UnreadableStore(_unreadable(file, error.strerror)) from error
    except sqlite3.Error as error:
        # SQLITE_ERROR: a column is missing. Errors of Python's module have no code.
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGE | {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_OK}:
            raise UnusableStore(f"{file} is damaged ({error})") from error
        raise UnreadableStore(_unreadable(file, error)) from error
    except _Unfit as error:
        raise UnusableStore(f"{file} {error}") from None


def _unreadable(file: Path, cause: object) -> str:
    advice = "check the owner and the permissions of the file and of its folder, and the disk"
    return f"{file} cannot be read ({cause}): {advice}"


class _Unfit(Exception):
    pass


def _check(connection: sqlite3.Connection, expected: Expected) -> bool:
    """Whether there are tables; raises unless they are those of a store that is whole."""
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _Unfit(f"is damaged ({' '.join(str(verdict).split())})")
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return False
    if missing := sorted(set(expected.tables) - tables):
        raise _Unfit(f"is damaged (no table {missing[0]})")
    version = connection.execute(expected.version).fetchone()
    if version is None or str(version[0]) != str(expected.known):
        found = version[0] if version else "none"
        raise _Unfit(f"has schema version {found}, and this version of secmon works with {expected.known}")
    return True
