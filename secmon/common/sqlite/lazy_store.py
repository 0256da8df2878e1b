"""A SQLite file that is opened at its first use."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine

from secmon.common.sqlite.commit_watch import CommitWatch
from secmon.common.sqlite.engine import read_transaction
from secmon.common.sqlite.recording import Recorder, recorded_transaction


class LazyStore:
    """Transactions on one file. All calls block: coroutines call through ``asyncio.to_thread``."""

    def __init__(self, path: Path, open_engine: Callable[[], Engine]) -> None:
        """``open_engine`` opens the file, and makes it if missing, at the first use: by then privileges are dropped."""
        self.path = path
        self._open_engine = open_engine
        self._opened: Engine | None = None
        self._watch: CommitWatch | None = None
        self._make_recorder: Callable[[Engine], Recorder] | None = None
        self._recorder: Recorder | None = None
        self._lock = threading.Lock()

    def record_with(self, make: Callable[[Engine], Recorder]) -> None:
        """Commit writes to the store of record first; before the first use. ``make`` gets the open file."""
        self._make_recorder = make

    def read(self) -> AbstractContextManager[Connection]:
        """One consistent view. Raises SecmonError 2012 for a file of another version."""
        return read_transaction(self._engine())

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction that holds the write lock from its start; rolled back on any exception.

        With a store of record it raises RecordFault, too (see ``recorded_transaction``).
        """
        with recorded_transaction(self._engine(), self._recorder) as (connection, _):
            yield connection

    def version(self) -> int:
        """Differs from its last value after any commit, by any thread or process: takes microseconds."""
        self._engine()
        with self._lock:
            if self._watch is None:
                self._watch = CommitWatch(self.path)
            return self._watch.token()

    def close(self) -> None:
        with self._lock:
            if self._watch is not None:
                self._watch.close()
                self._watch = None
            if self._opened is not None:
                self._opened.dispose()
                self._opened = None

    def _engine(self) -> Engine:
        with self._lock:
            if self._opened is None:
                self._opened = self._open_engine()
                self._recorder = None if self._make_recorder is None else self._make_recorder(self._opened)
            return self._opened
