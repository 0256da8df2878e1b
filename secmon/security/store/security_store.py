"""The security store: users, roles, policies, rules, keys, revocations; written on the master, copied to the others."""

import errno
import hashlib
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from sqlalchemy import Connection, Engine, delete, exc, insert, select

from secmon.common.errors import SecmonError
from secmon.common.sqlite.commit_watch import CommitWatch
from secmon.common.sqlite.engine import read_transaction, write_transaction
from secmon.common.sqlite.recording import Recorder, recorded_transaction
from secmon.common.sqlite.schema import open_store
from secmon.security.store.position import (
    AuditEnd,
    Position,
    create_position,
    read_audit_end,
    read_position,
    write_position,
)
from secmon.security.store.replication import Change, Key, Scalar, Snapshot, decode_change, decode_rows
from secmon.security.store.schema import (
    REPLICATED,
    SCHEMA,
    changes,
    column_names,
    is_shared,
    private_keys,
)
from secmon.security.store.transaction import ReadTransaction, WriteTransaction, matches, upsert
from secmon.security.store.view import SecurityView, SharedState, load_shared_state

KEPT_REVISIONS = 1000


class SecurityStore:
    """One node's copy of the security state. Safe to use from several threads and processes.

    On the master (``writable``) state changes in :meth:`write`; elsewhere only through :meth:`apply_changes` and
    :meth:`apply_snapshot`. All methods block on the disk for a short time, except :meth:`view`, :meth:`revision` and
    :meth:`store_id` while nothing has changed, which cost microseconds.

    A file that does not exist is made, with ``create`` only; otherwise FileNotFoundError is raised. Raises SecmonError
    2012 for a file of another version.
    """

    def __init__(
        self, path: Path, *, writable: bool = True, create: bool = True, kept_revisions: int = KEPT_REVISIONS
    ) -> None:
        if not create and not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        self.path = path
        self.writable = writable
        self._kept_revisions = kept_revisions
        self._engine: Engine = open_store(path, SCHEMA, first_rows=self._first_rows)
        self._watch = CommitWatch(path)
        self._recorder: Recorder | None = None
        self._load_lock = threading.Lock()
        self._cached_position: tuple[int, Position] | None = None
        self._cached_view: tuple[int, SecurityView] | None = None
        self._cached_shared: SharedState | None = None
        self._cached_digest: tuple[int, str] | None = None

    def close(self) -> None:
        """Release all connections."""
        self._watch.close()
        self._engine.dispose()

    def record_with(self, make: Callable[[Engine], Recorder]) -> None:
        """Commit writes to the store of record first. ``make`` gets the open file; before the first use."""
        self._recorder = make(self._engine)

    def _first_rows(self, connection: Connection) -> None:
        create_position(connection, str(uuid.uuid4()) if self.writable else "")

    # Position

    def version_token(self) -> int:
        """A number that differs from its last value after any commit, by any thread or process (microseconds)."""
        return self._watch.token()

    def position(self) -> Position:
        """Identity, revision and bookkeeping, read again only when something was committed."""
        token = self.version_token()
        cached = self._cached_position
        if cached is not None and cached[0] == token:
            return cached[1]
        with read_transaction(self._engine) as connection:
            position = read_position(connection)
        self._cached_position = (token, position)
        return position

    def audit_end(self) -> AuditEnd | None:
        """The last line of the audit log whose change is committed; None when there is none yet."""
        with read_transaction(self._engine) as connection:
            return read_audit_end(connection)

    def revision(self) -> int:
        """Grows by one with each change; 0 in a new store."""
        return self.position().revision

    def store_id(self) -> str:
        """The identity given by the master at creation; empty on a replica that has received nothing."""
        return self.position().store_id

    def view(self) -> SecurityView:
        """The current state, immutable. Never older than the last commit that was answered before this call."""
        token = self.version_token()
        cached = self._cached_view
        if cached is not None and cached[0] == token:
            return cached[1]
        with self._load_lock:
            # The token is read before the state: a commit in between makes the view newer than its token, and the
            # next call loads again; it can never be older.
            token = self.version_token()
            cached = self._cached_view
            if cached is not None and cached[0] == token:
                return cached[1]
            with read_transaction(self._engine) as connection:
                self._cached_shared = load_shared_state(connection, self._cached_shared)
                position = read_position(connection)
            view = SecurityView(self._engine, position, self._cached_shared, authoritative=self.writable)
            self._cached_view = (token, view)
            return view

    @contextmanager
    def read(self) -> Iterator[ReadTransaction]:
        """A consistent snapshot of the rows, for what a view does not hold: users and links."""
        with read_transaction(self._engine) as connection:
            yield ReadTransaction(connection)

    @property
    def known_revision(self) -> int:
        """The revision of the view that was loaded last; the store may be further. Costs nothing."""
        return 0 if self._cached_view is None else self._cached_view[1].revision

    # Writing

    @contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        """One transaction and one revision: all or nothing. Waits for other writers.

        Raises :class:`PermissionError` on a replica: replicas only apply what the master sends. With a store of record
        it raises RecordFault, too (see ``recorded_transaction``).
        """
        if not self.writable:
            raise PermissionError("the security store of this node is a replica")
        with recorded_transaction(self._engine, self._recorder) as (connection, recording):
            before = read_position(connection)
            transaction = WriteTransaction(connection, before.revision + 1, before.store_id)
            yield transaction
            if transaction.recorded:
                self._finish(connection, before, transaction)
                recording.audit = transaction.audit_lines

    def _finish(self, connection: Connection, before: Position, transaction: WriteTransaction) -> None:
        revision = transaction.revision
        floor = max(before.log_floor, revision - self._kept_revisions)
        connection.execute(delete(changes).where(changes.c.revision <= floor))
        after = msgspec.structs.replace(
            before,
            store_id=transaction.store_id,
            revision=revision,
            shared_revision=revision if transaction.shared else before.shared_revision,
            generation=before.generation if transaction.store_id == before.store_id else 0,
            log_floor=floor,
        )
        write_position(connection, after)

    # Replication

    def changes_since(self, revision: int) -> list[Change] | None:
        """The changes that lead from ``revision`` to the present, in order; None when only a snapshot can."""
        with read_transaction(self._engine) as connection:
            position = read_position(connection)
            if not position.log_floor <= revision <= position.revision:
                return None
            found = connection.execute(
                select(changes).where(changes.c.revision > revision).order_by(changes.c.revision, changes.c.ordinal)
            )
            return [
                Change(row.revision, row.table, msgspec.msgpack.decode(row.key, type=Key), row.row) for row in found
            ]

    def snapshot(self) -> Snapshot:
        """The whole replicated state at one revision."""
        with read_transaction(self._engine) as connection:
            position = read_position(connection)
            return Snapshot(
                store_id=position.store_id,
                revision=position.revision,
                schema_version=SCHEMA.version,
                columns={name: column_names(table) for name, table in REPLICATED.items()},
                tables={name: list(_rows(connection, name)) for name in REPLICATED},
            )

    def apply_changes(self, store_id: str, base_revision: int, changes: Sequence[Change], new_revision: int) -> None:
        """Follow the master from ``base_revision`` to ``new_revision``, in one transaction.

        Raises 3045, and changes nothing, when this store is not at that base or the changes do not fit.
        """
        decoded = [known for change in changes if (known := decode_change(change)) is not None]
        if not all(base_revision < change.revision <= new_revision for change in changes):
            raise SecmonError(3045, "changes outside the revisions they should lead through")
        with self._applying() as connection:
            before = read_position(connection)
            if (before.store_id, before.revision) != (store_id, base_revision) or new_revision < base_revision:
                raise SecmonError(3045, f"at revision {before.revision} of {before.store_id or 'nothing'}")
            for table, key, row in decoded:
                if row is None:
                    connection.execute(delete(table).where(matches(table, key)))
                else:
                    upsert(connection, table, key, row)
            shared = any(is_shared(table.name, key) for table, key, _ in decoded)
            after = msgspec.structs.replace(
                before,
                revision=new_revision,
                shared_revision=new_revision if shared else before.shared_revision,
                log_floor=new_revision,
            )
            write_position(connection, after)

    def apply_snapshot(self, snapshot: Snapshot) -> None:
        """Replace the whole replicated state, in one transaction, whatever store it is of.

        Raises 3045, and changes nothing, when it does not fit the tables, and when it holds no users: no master's
        does, and users are never replaced by nothing.
        """
        rows = {name: decode_rows(table, snapshot) for name, table in REPLICATED.items()}
        with self._applying() as connection:
            before = read_position(connection)
            if snapshot.revision < 1 or not rows["users"]:
                offered = f"store {snapshot.store_id} at revision {snapshot.revision} holds no users"
                kept = f"store {before.store_id} at revision {before.revision}" if before.store_id else "nothing"
                raise SecmonError(3045, f"{offered}; this node keeps what it has, {kept}")
            connection.execute(delete(changes))
            for table in reversed(REPLICATED.values()):
                connection.execute(delete(table))
            for name, table in REPLICATED.items():
                if rows[name]:
                    connection.execute(insert(table), rows[name])
            revision = snapshot.revision
            after = Position(
                store_id=snapshot.store_id,
                revision=revision,
                shared_revision=revision,
                generation=before.generation + 1,
                log_floor=revision,
            )
            write_position(connection, after)

    def keep_private_key(self, kid: str, pem: str) -> None:
        """On a replica: keep the private half of this node's signing key ``kid``, in place of all before.

        The master keeps its own in the transaction that makes it.
        """
        with self._applying() as connection:
            connection.execute(delete(private_keys))
            connection.execute(insert(private_keys).values(kid=kid, pem=pem))
            before = read_position(connection)  # views must be loaded again
            write_position(connection, msgspec.structs.replace(before, generation=before.generation + 1))

    @contextmanager
    def _applying(self) -> Iterator[Connection]:
        if self.writable:
            raise PermissionError("the security store of the master is not a replica")
        try:
            with write_transaction(self._engine) as connection:
                # Rows arrive in an order that is right at the end, not at every step.
                connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
                yield connection
        except (exc.IntegrityError, exc.StatementError) as error:
            if isinstance(error, exc.OperationalError):
                raise
            raise SecmonError(3045, "the rows do not fit the security store") from error

    def digest(self) -> str:
        """Hash of the whole replicated content and its revision, to compare copies; kept until the next commit."""
        token = self.version_token()
        cached = self._cached_digest
        if cached is not None and cached[0] == token:
            return cached[1]
        with read_transaction(self._engine) as connection:
            position = read_position(connection)
            content = hashlib.sha256(f"{position.store_id} {position.revision}".encode())
            encoder = msgspec.msgpack.Encoder()
            for name in REPLICATED:
                content.update(encoder.encode(name))
                for row in _rows(connection, name):
                    content.update(encoder.encode(row))
        digest = content.hexdigest()
        self._cached_digest = (token, digest)
        return digest


def _rows(connection: Connection, name: str) -> Iterator[tuple[Scalar, ...]]:
    table = REPLICATED[name]
    for row in connection.execute(select(table).order_by(*table.primary_key.columns)):
        yield tuple(row)
