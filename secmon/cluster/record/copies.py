"""Whole stores: a node's copy made from the store of record, and the store of record made from a master's stores."""

from sqlalchemy import Connection, Engine, update

from secmon.cluster.record.recorded_stores import Contents, RecordedStore
from secmon.cluster.record.recorder import make_position, read_position, write_position
from secmon.cluster.record.schema import stores
from secmon.cluster.record.writes import put_rows
from secmon.common.sqlite.engine import write_transaction
from secmon.common.sqlite.row_capture import all_rows


def bring_up_to(local: Engine, store: RecordedStore, contents: Contents) -> bool:
    """Make the copy ``local`` what is recorded, and the original from now on; whether its rows had to change."""
    with write_transaction(local) as connection:
        behind = not store.same(connection, contents)
        if behind:
            store.load(connection, contents)
        store.make_original(connection, contents)
        make_position(connection)
        write_position(connection, contents.revision)
    return behind


def upload(record: Connection, local: Connection, store: RecordedStore) -> int:
    """Record all rows of a store, in the transaction of ``record``; their number. Any rows before are replaced."""
    make_position(local)
    revision = max(read_position(local), 0) + 1
    count = 0
    for captured in store.tables:
        rows = list(all_rows(local, captured))
        count += len(rows)
        put_rows(record, store.name, revision, rows)
    record.execute(update(stores).where(stores.c.store == store.name).values(revision=revision, commit_id=""))
    write_position(local, revision)
    return count
