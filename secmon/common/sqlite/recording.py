"""Write transactions that are committed to a store of record first, where there is one."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from sqlalchemy import Connection, Engine

from secmon.common.sqlite.engine import write_transaction
from secmon.common.sqlite.faults import RecordFault
from secmon.common.trace import span


class Behind(Exception):
    """The store of record is ahead of this store: a commit there was not followed by the one here."""


class Recorder(Protocol):
    """The store of record, as a store on this node sees it. All calls block on the network."""

    def begin(self, connection: Connection) -> None:
        """A write transaction of the store has begun."""

    def commit(self, connection: Connection, audit: bytes) -> bool:
        """Commit there what ``connection`` has changed since ``begin``; whether there was anything.

        ``audit``: the lines of the audit log about it. Raises Behind; RecordFault 3050 and 3051, with nothing changed
        there, and 3052 when that is not known.
        """

    def catch_up(self, engine: Engine) -> None:
        """Bring the store up to the store of record. Raises RecordFault 3050."""


class Commits:
    """Transactions that were recorded."""

    made = 0


_commits: ContextVar[Commits | None] = ContextVar("commits", default=None)


@contextmanager
def counted_commits() -> Iterator[Commits]:
    """Count what this task, and the threads that it starts, commit to the store of record."""
    commits = Commits()
    token = _commits.set(commits)
    try:
        yield commits
    finally:
        _commits.reset(token)


class Recording:
    """One transaction, as its function may add to it."""

    def __init__(self) -> None:
        self.audit = b""


@contextmanager
def recorded_transaction(engine: Engine, recorder: Recorder | None) -> Iterator[tuple[Connection, Recording]]:
    """As ``write_transaction``; what the block changes is committed to the store of record before it is here.

    Raises what :class:`Recorder` says, and 3053 after it has caught up. When the commit here fails after the one there,
    the change was made: 3052, and the next transaction catches up.
    """
    recording, recorded = Recording(), False
    try:
        with write_transaction(engine) as connection:
            if recorder is not None:
                recorder.begin(connection)
            yield connection, recording
            if recorder is not None:
                with span("store of record"):
                    recorded = recorder.commit(connection, recording.audit)
        if recorded and (commits := _commits.get()) is not None:
            commits.made += 1
    except Behind as error:
        assert recorder is not None, "it has raised this"
        recorder.catch_up(engine)
        raise RecordFault(3053, str(error)) from error
    except Exception as error:
        if recorded:
            raise RecordFault(3052, "the store of record has it, the store of this node failed") from error
        raise
