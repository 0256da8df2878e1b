"""The tables of the store of record: made once, and checked by all that use them."""

from sqlalchemy import Connection, insert, inspect, select

from secmon.cluster.leadership.terms import create_row
from secmon.cluster.record.engine import NO_RECORD
from secmon.cluster.record.recorded_stores import RECORDED
from secmon.cluster.record.schema import VERSION, metadata, release, stores
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


def check_tables(connection: Connection) -> None:
    """Raises 3050 when there is no store of record in the database, or one of another release."""
    if not _has_tables(connection):
        raise SecmonError(3050, NO_RECORD)
    found = connection.execute(select(release.c.version)).scalar_one_or_none()
    if found != VERSION:
        raise SecmonError(3050, f"the store of record has version {found} of its tables, this release needs {VERSION}")


def _has_tables(connection: Connection) -> bool:
    return bool(inspect(connection).has_table(str(release.name), schema=metadata.schema))
