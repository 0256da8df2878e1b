"""Statements on the store of record: the proof of the term, a commit, and what is recorded."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, select, update
from sqlalchemy.dialects.postgresql import insert

from secmon.cluster.leadership.term import Term
from secmon.cluster.leadership.terms import look, prove
from secmon.cluster.record.recorded_stores import Contents
from secmon.cluster.record.schema import audit, rows, stores
from secmon.common.errors import SecmonError
from secmon.common.sqlite.recording import Behind
from secmon.common.sqlite.row_capture import ChangedRow, Row
from secmon.security.audit import last_seq


def prove_term(connection: Connection, held: Term) -> None:
    """Lock the row of the term until the end of the transaction: a new term waits for it, a renewal does not.

    Raises 3051 when the term is not the current one.
    """
    if not prove(connection, held):
        raise SecmonError(3051, f"term {held.number} has ended")


def check_term(connection: Connection, held: Term) -> None:
    """As ``prove_term`` for what only reads: nothing is locked, and a new term may begin meanwhile."""
    row = look(connection)
    if row is None or row.term != held:
        raise SecmonError(3051, f"term {held.number} has ended")


def advance(connection: Connection, store: str, base: int, commit_id: str) -> int:
    """Take the revision after ``base``, the last one that this node's copy has; the new one. Raises Behind."""
    at_base = update(stores).where(stores.c.store == store, stores.c.revision == base)
    if not connection.execute(at_base.values(revision=base + 1, commit_id=commit_id)).rowcount:
        raise Behind(f"{store} is not at revision {base}")
    return base + 1


def put_rows(connection: Connection, store: str, revision: int, changed: Sequence[ChangedRow]) -> None:
    """Write rows, and the keys of deleted ones, as of ``revision``."""
    values = [
        {"store": store, "table": one.table, "key": one.key, "row": one.row, "revision": revision} for one in changed
    ]
    for start in range(0, len(values), _ROWS_AT_ONCE):
        # One statement with many rows. Many statements would be a pipeline, in which the server's bound of an idle
        # transaction does not hold: a master that is paused there would keep its lock on the term.
        statement = insert(rows).values(values[start : start + _ROWS_AT_ONCE])
        new = {name: statement.excluded[name] for name in ("row", "revision")}
        connection.execute(statement.on_conflict_do_update(index_elements=_KEY, set_=new))


_KEY = [rows.c.store, rows.c.table, rows.c.key]
_ROWS_AT_ONCE = 1000
"""Their parameters are well below the 65,535 of a statement."""


def put_audit(connection: Connection, lines: bytes) -> None:
    """Keep lines of the audit log, if there are any. They follow those that are kept."""
    if lines:
        connection.execute(insert(audit).values(seq=last_seq(lines), lines=lines))


def last_commit(connection: Connection, store: str) -> tuple[int, str]:
    """Revision and commit id of a store, after any commit in flight has ended: its row is locked for that."""
    found = select(stores.c.revision, stores.c.commit_id).where(stores.c.store == store).with_for_update()
    row = connection.execute(found).one()
    return row.revision, row.commit_id


def read_contents(connection: Connection, store: str) -> Contents:
    """Everything that is recorded of a store, in a transaction with one view of it."""
    revision = connection.execute(select(stores.c.revision).where(stores.c.store == store)).scalar_one()
    present: defaultdict[str, list[Row]] = defaultdict(list)
    deleted: defaultdict[str, list[list[Any]]] = defaultdict(list)
    found = select(rows.c.table, rows.c.key, rows.c.row).where(rows.c.store == store).order_by(rows.c.table, rows.c.key)
    for table, key, row in connection.execute(found):
        if row is None:
            deleted[table].append(msgspec.json.decode(key))
        else:
            present[table].append(row)
    return Contents(revision, present, deleted)
