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
