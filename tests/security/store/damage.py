"""Damage to SQLite files, as failing disks do it."""

import sqlite3
from contextlib import closing
from pathlib import Path

PAGE = 4096


def overwrite_pages(path: Path) -> None:
    """Overwrite every page but the first, which holds the schema: the store can be opened, and not be worked with."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = path.stat().st_size
    assert size > 2 * PAGE
    with path.open("r+b") as file:
        file.seek(PAGE)
        file.write(b"\xa5" * (size - PAGE))


def damage_table(path: Path, table: str) -> None:
    """Overwrite the first page of ``table`` in a store that others have open, and let them notice a change."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        with path.open("r+b") as file:
            file.seek((root - 1) * PAGE)
            file.write(b"\xa5" * PAGE)
        connection.execute("PRAGMA user_version = 77")  # on the first page: caches of all connections are read again
