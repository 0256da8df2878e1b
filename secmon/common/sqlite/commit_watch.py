"""Has anything been committed to a SQLite file? Answered in microseconds."""

import sqlite3
import threading
from pathlib import Path

from secmon.common.sqlite.faults import fault_of
from secmon.common.sqlite.files import connect


class CommitWatch:
    """A connection of its own: ``PRAGMA data_version`` changes when any *other* connection has committed.

    Safe to use from several threads.
    """

    def __init__(self, path: Path) -> None:
        """The file exists."""
        self._path = path
        self._connection = connect(path)
        self._lock = threading.Lock()

    def token(self) -> int:
        """A number that differs from its last value after any commit, by any thread or process. Raises StoreFault."""
        with self._lock:
            try:
                return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
            except sqlite3.Error as error:
                raise fault_of(self._path, error) or error from error

    def close(self) -> None:
        with self._lock:
            self._connection.close()
