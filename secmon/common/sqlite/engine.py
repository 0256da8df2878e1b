"""Engines for the SQLite files of a node: WAL, busy timeout, foreign keys, file mode."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, ExceptionContext

from secmon.common.errors import SecmonError
from secmon.common.sqlite.faults import fault_of
from secmon.common.sqlite.files import BUSY_TIMEOUT_SECONDS, create_private, folder_lock
from secmon.common.trace import span

_BEGIN = "secmon_begin"


def open_engine(path: Path, *, mode: int = 0o640, synchronous: Literal["FULL", "NORMAL"] = "FULL") -> Engine:
    """Open or create the database at ``path`` with file permissions ``mode``; the folder is created if missing.

    ``FULL`` survives power loss after each commit, ``NORMAL`` may lose the last commits then but never corrupts.
    Any number of processes may open or create one file at once. Connections may be used from any thread, one at a
    time. Dispose the engine when done. Work with it raises SQLAlchemyError; StoreFault for a file that is damaged and
    for a disk that is full or fails.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with folder_lock(path.parent):
        create_private(path, mode)
        engine = connect_engine(path, synchronous=synchronous)
        with engine.connect():  # the first connection switches a new file to WAL
            return engine


def connect_engine(path: Path, *, synchronous: Literal["FULL", "NORMAL"] = "FULL", foreign_keys: bool = True) -> Engine:
    """An engine for the database at ``path``, which exists; the caller holds the lock of its folder."""
    # Values stay out of the texts of errors: these reach the log, and there are hashes and keys among them.
    # Mode rw: a file that is taken away meanwhile is an error; it is not made again.
    file = URL.create("sqlite+pysqlite", database=f"file:{quote(str(path))}", query={"mode": "rw", "uri": "true"})
    engine = create_engine(file, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        # The driver must not open transactions by itself: it would never take the write lock up front.
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_SECONDS * 1000}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")

    @event.listens_for(engine, "handle_error")
    def explain(context: ExceptionContext) -> None:
        fault = fault_of(path, context.original_exception)
        if fault is not None:
            raise fault from context.original_exception

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN"))

    return engine


@contextmanager
def write_transaction(engine: Engine) -> Iterator[Connection]:
    """One transaction that holds the write lock from its start: what it reads cannot change under it.

    Waits up to ``BUSY_TIMEOUT_SECONDS`` for other writers. Committed at the end, rolled back on any exception.
    """
    with span("store"), engine.connect() as plain:
        connection = plain.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})
        with connection.begin():
            yield connection


@contextmanager
def read_transaction(engine: Engine) -> Iterator[Connection]:
    """One consistent view of the database, unaffected by concurrent commits."""
    with span("store"), engine.connect() as connection, connection.begin():
        yield connection


@contextmanager
def attempt(connection: Connection, failed: Callable[[SecmonError], object]) -> Iterator[None]:
    """A part of a write transaction that may fail alone (a savepoint).

    A SecmonError undoes what the block has written, is passed to ``failed`` and goes no further; any other exception
    undoes the whole transaction. Values for the answer are noted at the end of the block, where they are only reached
    together with the writes.
    """
    try:
        with connection.begin_nested():
            yield
    except SecmonError as error:
        failed(error)
