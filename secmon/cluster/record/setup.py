"""The tables of the store of record: made once, upgraded with a release, and checked by all that use them."""

from sqlalchemy import Connection, insert, inspect, select, update

from secmon.cluster.leadership.terms import create_row
from secmon.cluster.record.engine import NO_RECORD
from secmon.cluster.record.recorded_stores import RECORDED
from secmon.cluster.record.schema import VERSION, candidates, metadata, release, stores, term
from secmon.common.errors import SecmonError


def create_tables(connection: Connection) -> None:
    """Make the tables of an empty database. Raises 3050 when there are tables of secmon already."""
    if _has_tables(connection):
        raise SecmonError(3050, "the database holds a store of record already")
    connection.exec_driver_sql(f'CREATE SCHEMA IF NOT EXISTS "{metadata.schema}"')
    metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(release).values(version=VERSION))
    create_row(connection)
    for store in RECORDED:
        connection.execute(insert(stores).values(store=store.name, revision=0, commit_id=""))


def upgrade_tables(connection: Connection) -> bool:
    """Bring tables of an earlier release to those of this one; False when there is nothing to do.

    Raises 3050 for tables of a later release.
    """
    if not _has_tables(connection):
        return False
    found = connection.execute(select(release.c.version)).scalar_one()
    if found >= VERSION:
        check_tables(connection)
        return False
    # Version 1: nothing was known of the nodes but where they are.
    for name in ("protocol", "min_protocol"):
        connection.exec_driver_sql(f"ALTER TABLE {term} ADD COLUMN {name} integer NOT NULL DEFAULT 0")
    candidates.drop(connection)
    candidates.create(connection)
    connection.execute(update(release).values(version=VERSION))
    return True


def check_tables(connection: Connection) -> None:
    """Raises 3050 when there is no store of record in the database, or one of another release."""
    if not _has_tables(connection):
        raise SecmonError(3050, NO_RECORD)
    found = connection.execute(select(release.c.version)).scalar_one_or_none()
    if found != VERSION:
        advice = "upgrade this node" if (found or 0) > VERSION else "upgrade all nodes, then run: secmon store migrate"
        reason = f"the store of record has version {found} of its tables, this release needs {VERSION}: {advice}"
        raise SecmonError(3050, reason)


def _has_tables(connection: Connection) -> bool:
    return bool(inspect(connection).has_table(str(release.name), schema=metadata.schema))
