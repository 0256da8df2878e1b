"""Migrations: a store that an earlier release has written gets the tables of this one, after a copy aside.

The migrations of a store lie in the folder ``migrations`` beside its tables, a module for each version of them
(docs/upgrade-secmon.md).
"""

import logging
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.common.file_io import sync_folder
from secmon.common.migrations import run_migrations
from secmon.common.sqlite.engine import connect_engine, write_transaction
from secmon.common.sqlite.faults import storage_reason
from secmon.common.sqlite.files import connect, create_private, folder_lock
from secmon.common.sqlite.schema import StoreSchema, has_revision, newer, read_version, set_version

log = logging.getLogger("secmon.stores")

KEPT_COPIES = 3
"""Copies of one store that are kept; the oldest go first."""


def migrate(path: Path, schema: StoreSchema, clock: Clock) -> None:
    """Bring the store at ``path``, if there is one, to the latest version of its tables. Blocks.

    The store is copied aside first, then all migrations run in one transaction. Any number of processes may call this
    at once: one works, the others wait. To be called while the store is not in use: an earlier release that has it
    open cannot work with the new tables. Raises SecmonError 1019 when it cannot be copied, 2012 for a store of a newer
    release and when a migration fails; StoreFault. The store is then as it was.
    """
    if not path.exists():
        return
    with folder_lock(path.parent):
        # Without checks of foreign keys, as SQLite wants it where tables are rebuilt: they are checked at the end.
        engine = connect_engine(path, foreign_keys=False)
        try:
            _migrate(path, engine, schema, clock)
        finally:
            engine.dispose()


def _migrate(path: Path, engine: Engine, schema: StoreSchema, clock: Clock) -> None:
    with write_transaction(engine) as connection:
        found = read_version(path, connection, schema)
        if found is None or (found == schema.version and has_revision(connection)):
            return
        if found == schema.version:  # written before secmon used alembic: the tables are the same
            set_version(connection, schema)
            return
        if found > schema.version:
            raise SecmonError(2012, newer(path, found, schema))
        copy = copy_aside(path, found, clock)
        try:
            _run(connection, schema, found)
        except Exception as error:  # a migration is code of any kind
            copy.unlink(missing_ok=True)
            reason = storage_reason(error) if isinstance(error, SQLAlchemyError) else repr(error)
            step = f"from version {found} of its tables to {schema.version}"
            raise SecmonError(2012, f"{path} could not be migrated {step} and is as it was: {reason}") from error
    log.info("%s was migrated from version %d of its tables to %d; before it is %s", path, found, schema.version, copy)
    for old in copies_of(path)[:-KEPT_COPIES]:
        old.unlink(missing_ok=True)


def _run(connection: Connection, schema: StoreSchema, found: int) -> None:
    run_migrations(connection, schema.migrations, found, schema.version)
    set_version(connection, schema)
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").first()
    if broken is not None:
        raise ValueError(f"a row of {broken[0]} refers to a row of {broken[2]} that does not exist")


def copies_of(path: Path) -> list[Path]:
    """The copies that migrations have made of a store, the oldest first."""
    return sorted(path.parent.glob(f"{path.name}.version-*"), key=lambda copy: copy.name.rpartition("-")[2])


def copy_aside(path: Path, version: int, clock: Clock) -> Path:
    """Copy the store beside itself as ``NAME.version-N-TIME`` (mode 0640), on the disk for good; the copy's path.

    Raises SecmonError 1019; nothing of the copy is left then.
    """
    copy = path.with_name(f"{path.name}.version-{version}-{clock.now():%Y%m%d%H%M%S}")
    try:
        create_private(copy, 0o640)
        with closing(connect(path)) as source, closing(connect(copy)) as target:
            source.backup(target)
        with open(copy, "rb") as file:
            os.fsync(file.fileno())
        sync_folder(copy.parent)
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):
            copy.unlink()
        raise SecmonError(1019, f"{copy}: {error}") from error
    return copy
