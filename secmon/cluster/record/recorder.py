"""Commits the writes of one store to the store of record, before they are committed on this node."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Column, Connection, Engine, Integer, MetaData, Table, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from secmon.cluster.leadership.term import Term
from secmon.cluster.record.engine import RecordAddress, unavailable
from secmon.cluster.record.recorded_stores import RecordedStore
from secmon.cluster.record.standby import unconfirmed
from secmon.cluster.record.writes import advance, last_commit, prove_term, put_audit, put_rows, read_contents
from secmon.common.errors import SecmonError
from secmon.common.sqlite.engine import write_transaction
from secmon.common.sqlite.faults import RecordFault
from secmon.common.sqlite.row_capture import ChangedRow, RowCapture

COMMIT_SECONDS = 5.0
"""A commit that takes longer is cancelled. Its outcome is then read again."""


class _LostAnswer(Exception):
    """A commit may have taken place."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


_position = Table("record_position", MetaData(), Column("revision", Integer, nullable=False))
"""In each store of a node: up to where it has what is recorded."""


class StoreRecorder:
    """See :class:`secmon.common.sqlite.recording.Recorder`. One for each open store of the master."""

    def __init__(
        self,
        store: RecordedStore,
        local: Engine,
        record: Engine,
        address: RecordAddress,
        held: Callable[[], Term],
        *,
        commit_seconds: float = COMMIT_SECONDS,
    ) -> None:
        """``held``: the term of this node. It raises SecmonError 3051 when there is none."""
        self._store, self._record, self._address, self._held = store, record, address, held
        self._commit_seconds = commit_seconds
        with write_transaction(local) as connection:
            make_position(connection)
        self._capture = RowCapture(local, store.tables)

    def begin(self, connection: Connection) -> None:
        self._capture.begin(connection)

    def commit(self, connection: Connection, audit: bytes) -> bool:
        changed = self._capture.changes(connection)
        if not changed:
            return False
        base = read_position(connection)
        self._commit(base, changed, audit)
        write_position(connection, base + 1)
        return True

    def catch_up(self, engine: Engine) -> None:
        with self._faults(), self._record.connect() as connection, connection.begin():
            prove_term(connection, self._held())
            contents = read_contents(connection, self._store.name)
        with write_transaction(engine) as local:
            self._store.load(local, contents)
            write_position(local, contents.revision)

    def _commit(self, base: int, changed: list[ChangedRow], audit: bytes) -> None:
        commit_id = uuid.uuid4().hex
        try:
            with self._faults():
                warnings = self._transaction(base, commit_id, changed, audit)
        except _LostAnswer as lost:
            if not self._happened(base, commit_id):
                raise RecordFault(3050, self._reason(lost.cause)) from lost
            return
        if warnings:
            raise RecordFault(3052, f"{self._address.shown}: the standby has not confirmed it: {warnings[0]}")

    def _transaction(self, base: int, commit_id: str, changed: list[ChangedRow], audit: bytes) -> list[str]:
        """One commit there; warnings about it. Raises _LostAnswer when it may have taken place."""
        with self._record.connect() as connection, connection.begin() as transaction:
            prove_term(connection, self._held())
            revision = advance(connection, self._store.name, base, commit_id)
            put_rows(connection, self._store.name, revision, changed)
            put_audit(connection, audit)
            with unconfirmed(connection, self._commit_seconds) as warnings:
                try:
                    transaction.commit()
                except (SQLAlchemyError, OSError) as error:
                    raise _LostAnswer(error) from error
        return warnings

    def _happened(self, base: int, commit_id: str) -> bool:
        """Whether a commit took place whose answer was lost. Raises RecordFault 3052 when that cannot be found out."""
        try:
            with self._record.connect() as connection, connection.begin():
                revision, last = last_commit(connection, self._store.name)
        except (SQLAlchemyError, OSError) as error:
            raise RecordFault(3052, self._reason(error)) from error
        if revision > base and last != commit_id:  # a later master has written meanwhile
            raise RecordFault(3052, f"{self._address.shown}: the answer of the commit was lost")
        return last == commit_id

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """What goes wrong with the database, in the words of an operator."""
        try:
            yield
        except SecmonError as error:
            raise RecordFault(error.code, error.extra or "") from error
        except (SQLAlchemyError, OSError) as error:
            raise RecordFault(3050, self._reason(error)) from error

    def _reason(self, error: BaseException) -> str:
        return unavailable(self._address, error).extra or ""


def make_position(connection: Connection) -> None:
    """Make the table of the position where it is missing."""
    _position.create(connection, checkfirst=True)


def read_position(connection: Connection) -> int:
    """The revision of the record that this store has; -1 when it has none, which never is one's base."""
    found = connection.execute(select(_position.c.revision)).scalar_one_or_none()
    return -1 if found is None else found


def write_position(connection: Connection, revision: int) -> None:
    """Note that this store has what is recorded up to ``revision``."""
    if not connection.execute(update(_position).values(revision=revision)).rowcount:
        connection.execute(insert(_position).values(revision=revision))
