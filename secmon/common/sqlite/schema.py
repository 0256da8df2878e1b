"""The tables of a store and their version: which one a file has, and a new file of the latest one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from sqlalchemy import Column, Connection, DefaultClause, Engine, MetaData, String, Table, delete, insert

from secmon.common.errors import SecmonError
from secmon.common.migrations import revision
from secmon.common.sqlite.engine import open_engine, read_transaction, write_transaction

_ALEMBIC = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True, nullable=False))
"""Alembic's own table, defined here too, so that opening a store does not load alembic."""


class StoreSchema(NamedTuple):
    """The tables of a store in their latest ``version``, from 1.

    ``migrations`` is the folder of its migrations, one for each version; the revision of alembic is the version in four
    digits. ``number`` reads and ``set_number`` writes (``{}``) the version as secmon kept it before it used alembic. It
    is still written: an earlier release opens the store where the tables are those that it knows, and refuses it else.
    """

    metadata: MetaData
    version: int
    migrations: Path
    number: str
    set_number: str


class UnknownVersion(Exception):
    """The store does not say which version its tables are; the text is what it says instead."""


def default_of(column: Column[Any]) -> Any:
    """The value of a column in a row of an earlier release, which lacks it. Raises LookupError where there is none."""
    default = column.server_default
    if isinstance(default, DefaultClause) and isinstance(default.arg, str):
        kind = column.type.python_type
        return bool(int(default.arg)) if kind is bool else kind(default.arg)
    if column.nullable:
        return None
    raise LookupError(column.name)


def version_of(execute: Callable[[str], Any], schema: StoreSchema) -> int | None:
    """The version of the tables that ``execute`` (a method of a connection) reads; None where there are none.

    Raises UnknownVersion, and what ``execute`` raises.
    """
    tables = {name for (name,) in execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()}
    if not tables:
        return None
    query = "SELECT version_num FROM alembic_version" if _ALEMBIC.name in tables else schema.number
    row = execute(query).fetchone()
    text = "none" if row is None else str(row[0])
    if not (text.isdecimal() and text.isascii() and 0 < len(text) <= 9 and int(text)):
        raise UnknownVersion(text)
    return int(text)


def has_revision(connection: Connection) -> bool:
    """Whether alembic's table is in the store."""
    query = f"SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{_ALEMBIC.name}'"  # noqa: S608 - a constant
    return connection.exec_driver_sql(query).first() is not None


def set_version(connection: Connection, schema: StoreSchema) -> None:
    """Write that the tables are those of ``schema``."""
    _ALEMBIC.create(connection, checkfirst=True)
    connection.execute(delete(_ALEMBIC))
    connection.execute(insert(_ALEMBIC).values(version_num=revision(schema.version)))
    connection.exec_driver_sql(schema.set_number.format(schema.version))


def open_store(
    path: Path,
    schema: StoreSchema,
    *,
    first_rows: Callable[[Connection], None] = lambda connection: None,
    synchronous: Literal["FULL", "NORMAL"] = "FULL",
) -> Engine:
    """Open the store at ``path`` as :func:`open_engine` does; a new one gets its tables and what ``first_rows`` writes.

    A store of the latest version is only read, and alembic is never loaded. Raises SecmonError 2012 for a store of
    another version, with what to do: :func:`secmon.common.sqlite.migration.migrate` runs at the start of a node alone.
    """
    engine = open_engine(path, synchronous=synchronous)
    try:
        with read_transaction(engine) as connection:
            found = read_version(path, connection, schema)
        if found is None:
            found = _begin(path, engine, schema, first_rows)
        if found > schema.version:
            raise SecmonError(2012, newer(path, found, schema))
        if found < schema.version:
            raise SecmonError(2012, _older(path, found, schema))
    except BaseException:
        engine.dispose()
        raise
    return engine


def newer(path: Path, found: int, schema: StoreSchema) -> str:
    """What to do about a store that a newer release has written."""
    return (
        f"{path} was written by a newer version of secmon (version {found} of its tables, this one works with "
        f"{schema.version}): install the newer version again; or put back {path.name}.version-{schema.version}-TIME, "
        "the copy made before the upgrade; or, on a worker, remove the file: the master sends its state again "
        "(docs/upgrade-secmon.md)"
    )


def _older(path: Path, found: int, schema: StoreSchema) -> str:
    return (
        f"{path} was written by an earlier version of secmon (version {found} of its tables, this one works with "
        f"{schema.version}): restart the node, which migrates it"
    )


def read_version(path: Path, connection: Connection, schema: StoreSchema) -> int | None:
    """The version of the tables of an open store; None where there are none. Raises SecmonError 2012."""
    try:
        return version_of(connection.exec_driver_sql, schema)
    except UnknownVersion as error:
        raise SecmonError(2012, f"{path} is damaged (version of its tables: {error})") from None


def _begin(path: Path, engine: Engine, schema: StoreSchema, first_rows: Callable[[Connection], None]) -> int:
    """Make the tables, unless another process has made them meanwhile; the version of those that are there now."""
    with write_transaction(engine) as connection:
        found = read_version(path, connection, schema)
        if found is not None:
            return found
        schema.metadata.create_all(connection)
        first_rows(connection)
        set_version(connection, schema)
        return schema.version
