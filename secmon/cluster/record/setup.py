"""The tables of the store of record: made once, migrated by a later release, and checked by all that use them.

A node of a later release migrates them when it has become master (``daemons/takeover.py``), or while no node runs
(``secmon store migrate``). Nodes of the earlier one take no term from then on.
"""

from sqlalchemy import Connection, insert, inspect, select, text, update

from secmon.cluster.leadership.terms import create_row
from secmon.cluster.record.engine import NO_RECORD
from secmon.cluster.record.recorded_stores import RECORDED
from secmon.cluster.record.schema import SCHEMA, RecordSchema, metadata, release, stores, term
from secmon.common.errors import SecmonError
from secmon.common.migrations import run_migrations


def create_tables(connection: Connection) -> None:
    """Make the tables of an empty database. Raises 3050 when there are tables of secmon already."""
    if _has_tables(connection):
        raise SecmonError(3050, "the database holds a store of record already")
    connection.exec_driver_sql(f'CREATE SCHEMA IF NOT EXISTS "{metadata.schema}"')
    metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(release).values(version=SCHEMA.version))
    create_row(connection)
    for store in RECORDED:
        connection.execute(insert(stores).values(store=store.name, revision=0, commit_id=""))


def upgrade_tables(connection: Connection, schema: RecordSchema = SCHEMA) -> int | None:
    """Bring tables of an earlier release to those of this one, in the transaction of the caller.

    Returns the version that they had; None when there is no store of record, or nothing to do. From here to the end of
    the transaction no other node reads or writes: all begin with the row of the term. So whether this node may migrate
    can be looked up afterwards, in the new tables. Raises 3050 for tables of a later release, and what a migration
    raises.
    """
    if not _has_tables(connection) or _version(connection) == schema.version:
        return None
    connection.execute(text(f"LOCK TABLE {term} IN ACCESS EXCLUSIVE MODE"))
    found = _version(connection)  # another node may have migrated them meanwhile
    if found >= schema.version:
        _check(found, schema, older=False)
        return None
    run_migrations(connection, schema.migrations, found, schema.version)
    connection.execute(update(release).values(version=schema.version))
    return found


def check_tables(connection: Connection, *, older: bool = False, schema: RecordSchema = SCHEMA) -> None:
    """Raises 3050 when there is no store of record in the database, or one of another release.

    ``older``: tables of an earlier release will do, if this node could become master with them and then migrate them.
    """
    if not _has_tables(connection):
        raise SecmonError(3050, NO_RECORD)
    _check(_version(connection), schema, older=older)


def _check(found: int, schema: RecordSchema, *, older: bool) -> None:
    if found == schema.version or (older and schema.oldest_online <= found < schema.version):
        return
    if found > schema.version:
        advice = "upgrade this node"
    elif found < schema.oldest_online:
        advice = "stop all nodes, then run on one of this release: secmon store migrate"
    else:
        advice = "a node of this release migrates them when it becomes master"
    reason = f"the store of record has version {found} of its tables, this release needs {schema.version}: {advice}"
    raise SecmonError(3050, reason)


def _version(connection: Connection) -> int:
    """0: it is not said."""
    return connection.execute(select(release.c.version)).scalar_one_or_none() or 0


def _has_tables(connection: Connection) -> bool:
    return bool(inspect(connection).has_table(str(release.name), schema=metadata.schema))
