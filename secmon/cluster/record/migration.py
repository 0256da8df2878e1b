"""An installation's state, moved into the store of record as a whole, and back."""

from collections.abc import Callable
from contextlib import ExitStack

import msgspec
from sqlalchemy import Connection

from secmon.cluster.leadership.terms import look
from secmon.cluster.record.authority_record import put_authority
from secmon.cluster.record.copies import upload
from secmon.cluster.record.file_record import is_recorded, put_files
from secmon.cluster.record.local_stores import local_stores, opened
from secmon.cluster.record.recorded_stores import RecordedStore
from secmon.cluster.record.schema import metadata
from secmon.cluster.record.setup import create_tables
from secmon.cluster.record.writes import put_audit, read_contents
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.common.files.scan import Scanner
from secmon.common.paths import Paths
from secmon.common.sqlite.engine import write_transaction
from secmon.common.sqlite.row_capture import all_rows

_ENCODER = msgspec.json.Encoder(order="sorted")
Progress = Callable[[str, int], None]
"""Gets what was moved, and how much of it."""


def fill(record: Connection, paths: Paths, cluster_key: str, clock: Clock, progress: Progress) -> None:
    """Record all that a stopped master owns, in the transaction of ``record``: all of it or nothing.

    What was written is read again and compared. Raises 3050 when there is a store of record already, 3045 when what is
    read is not what was written.
    """
    create_tables(record)
    with ExitStack() as stack:
        # The stores note how far they are recorded: committed when the caller has committed all of it.
        for store, path in local_stores(paths):
            local = stack.enter_context(write_transaction(stack.enter_context(opened(path))))
            progress(store.name, upload(record, local, store))
            _compare(record, local, store)
        if paths.audit_log.exists():
            put_audit(record, paths.audit_log.read_bytes())
        progress("files", _fill_files(record, paths, clock))
        folder = paths.cluster_tls
        if (folder / "ca.key").exists():
            put_authority(record, cluster_key, (folder / "ca.pem").read_bytes(), (folder / "ca.key").read_bytes())
        record.commit()


def _fill_files(record: Connection, paths: Paths, clock: Clock) -> int:
    scanner = Scanner(paths.root, clock=clock)
    scanner.rescan()
    found = {path: entry for path, entry in scanner.manifest.entries().items() if is_recorded(path)}
    put_files(record, paths.root, found)
    return len(found)


def _compare(record: Connection, local: Connection, store: RecordedStore) -> None:
    recorded = read_contents(record, store.name).rows
    for captured in store.tables:
        name = str(captured.table.name)
        here = sorted(_ENCODER.encode(one.row) for one in all_rows(local, captured))
        if here != sorted(map(_ENCODER.encode, recorded.get(name, ()))):
            raise SecmonError(3045, f"the rows of {name} in the store of record are not those of the {store.name}")


def current_master(record: Connection) -> str:
    """The node that is master by the store of record; empty when none is."""
    row = look(record)
    return "" if row is None or row.expired or row.resigned else row.term.holder


def retire(record: Connection, clock: Clock) -> str:
    """Put the store of record out of use, after its state was moved elsewhere; the name that its tables have then."""
    kept = f"{metadata.schema}_until_{clock.now():%Y%m%d_%H%M%S}"
    record.exec_driver_sql(f'ALTER SCHEMA "{metadata.schema}" RENAME TO "{kept}"')
    return kept
