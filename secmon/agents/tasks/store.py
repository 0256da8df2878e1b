"""The store of tasks: one SQLite file on the master."""

import threading
from contextlib import AbstractContextManager
from pathlib import Path

from sqlalchemy import Connection, Engine

from secmon.agents.tasks.schema import SCHEMA
from secmon.common.sqlite.engine import read_transaction, write_transaction
from secmon.common.sqlite.schema import open_store


class TaskStore:
    """Connections to the tasks. All calls block: coroutines call through ``asyncio.to_thread``."""

    def __init__(self, path: Path) -> None:
        """The store at ``path``; opened, and made if missing, at its first use: by then privileges are dropped."""
        self.path = path
        self._opened: Engine | None = None
        self._lock = threading.Lock()

    def read(self) -> AbstractContextManager[Connection]:
        """One consistent view. Raises SecmonError 2012 for a file of another version."""
        return read_transaction(self._engine())

    def write(self) -> AbstractContextManager[Connection]:
        """One transaction that holds the write lock from its start; rolled back on any exception."""
        return write_transaction(self._engine())

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._opened.dispose()
                self._opened = None

    def _engine(self) -> Engine:
        with self._lock:
            if self._opened is None:
                self._opened = open_store(self.path, SCHEMA)
            return self._opened
