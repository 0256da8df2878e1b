"""Tables of the store of record in PostgreSQL.

Rows of the master's stores are kept as JSON, each with the revision of its last change: what changed since a revision
is one query, and the columns are those of the store that a row belongs to. Migrations of these tables are in
``migrations`` (docs/upgrade-secmon.md).
"""

from pathlib import Path
from typing import NamedTuple

from sqlalchemy import JSON, BigInteger, Boolean, Column, DateTime, Index, Integer, LargeBinary, MetaData, Table, Text


class RecordSchema(NamedTuple):
    """The tables in their latest ``version``, from 1; ``migrations`` is the folder of their migrations.

    ``oldest_online``: with tables of this version and later a node of this release can become master, and migrates them
    then. A new version of a store whose rows are recorded is a new version here too, though its migration may have
    nothing to do: nodes that do not know such rows shall take no term.
    """

    version: int
    oldest_online: int
    migrations: Path


SCHEMA = RecordSchema(version=3, oldest_online=2, migrations=Path(__file__).parent / "migrations")

metadata = MetaData(schema="secmon")

release = Table("release", metadata, Column("version", Integer, primary_key=True, autoincrement=False))
"""One row: the version of these tables. Not in a table of alembic: nodes of any release read it, without loading it."""

term = Table(
    "term",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),  # 1: there is one row
    Column("number", BigInteger, nullable=False, unique=True),  # the key that each write locks: see fencing
    Column("id", Text, nullable=False),  # random: a database that lost its last second issues no term twice
    Column("holder", Text, nullable=False),  # name of the master; empty: none yet
    Column("address", Text, nullable=False),
    Column("port", Integer, nullable=False),
    Column("since", DateTime(timezone=True), nullable=False),
    Column("renewed", DateTime(timezone=True), nullable=False),
    Column("ttl_seconds", Integer, nullable=False),
    Column("resigned", Boolean, nullable=False),  # the holder has ended its term by itself
    Column("successor", Text, nullable=False),  # who shall take over; empty: anybody
    Column("reason", Text, nullable=False),  # of the last change of master
    Column("protocol", Integer, nullable=False),  # generations of the link that the holder speaks; 0: none yet
    Column("min_protocol", Integer, nullable=False),
)

candidates = Table(
    "candidates",
    metadata,
    Column("node", Text, primary_key=True),
    Column("address", Text, primary_key=True),  # part of the key: two nodes of one name are seen here
    Column("port", Integer, primary_key=True, autoincrement=False),
    Column("since", DateTime(timezone=True), nullable=False),  # when it came, without a gap until it was seen
    Column("seen", DateTime(timezone=True), nullable=False),
    Column("preference", Integer, nullable=False),
    Column("obstacle", Text, nullable=False),  # why it cannot become master; empty: it can
    Column("missing", BigInteger, nullable=False),  # recorded changes that its copies lack
    Column("protocol", Integer, nullable=False),
    Column("min_protocol", Integer, nullable=False),
)
"""The nodes that look at this store, as each one writes of itself."""

stores = Table(
    "stores",
    metadata,
    Column("store", Text, primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("commit_id", Text, nullable=False),  # random: shows whether a commit whose answer was lost took place
)

rows = Table(
    "rows",
    metadata,
    Column("store", Text, primary_key=True),
    Column("table", Text, primary_key=True),
    Column("key", Text, primary_key=True),  # JSON array of the primary key
    Column("row", JSON(none_as_null=True)),  # None: the row was deleted
    Column("revision", BigInteger, nullable=False),
    Index("rows_by_revision", "store", "revision"),
)

audit = Table(
    "audit",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),  # number of the last one of the lines
    Column("lines", LargeBinary, nullable=False),  # as they stand in the file
)

files = Table(
    "files",
    metadata,
    Column("path", Text, primary_key=True),
    Column("hash", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
)

contents = Table(
    "contents",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),  # from 0
    Column("content", LargeBinary, nullable=False),
)
"""Contents of files, once each, by hash, in parts of a bounded size."""

authority = Table(
    "authority",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("certificate", Text, nullable=False),
    Column("sealed_key", LargeBinary, nullable=False),  # sealed with a key derived from the cluster key
)
