"""The tables of the store of record, and their migrations."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, inspect, select, text
from sqlalchemy.exc import DBAPIError

from secmon.agents.registry.entries import entries
from secmon.agents.registry.schema import SCHEMA as AGENTS
from secmon.agents.tasks.schema import SCHEMA as TASKS
from secmon.cluster.leadership.terms import look
from secmon.cluster.record.copies import bring_up_to
from secmon.cluster.record.engine import RecordAddress, open_record
from secmon.cluster.record.local_stores import local_stores, opened
from secmon.cluster.record.recorded_stores import RECORDED, SECURITY
from secmon.cluster.record.schema import SCHEMA, RecordSchema, metadata, stores
from secmon.cluster.record.schema import rows as recorded_rows
from secmon.cluster.record.setup import check_tables, create_tables, upgrade_tables
from secmon.cluster.record.writes import read_contents
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.security.credentials import authenticate
from secmon.security.store.schema import SCHEMA as USERS
from secmon.security.store.security_store import SecurityStore
from tests.cluster.record.kit import Record
from tests.folders import REPOSITORY
from tests.postgres import PostgresServer
from tests.waiting import LIMIT_SECONDS, wait_until

FIRST_VERSION = REPOSITORY / "tests/compat/record_1.sql"
"""As the first release with a store of record has made and filled it."""
PASSWORD = "Quarry-7!lamp"


@pytest.fixture
def first_version(postgres: PostgresServer) -> Iterator[Engine]:
    engine = open_record(RecordAddress(postgres.new_database()), statement_seconds=LIMIT_SECONDS)
    with engine.begin() as connection:
        connection.connection.driver_connection.execute(FIRST_VERSION.read_text())  # type: ignore[union-attr]
    yield engine
    engine.dispose()


def next_version(folder: Path, step: str) -> RecordSchema:
    """The version after the latest one, whose migration executes the statement ``step``."""
    migrations = Path(shutil.copytree(SCHEMA.migrations, folder / "migrations"))
    after, latest = f"{SCHEMA.version + 1:04}", f"{SCHEMA.version:04}"
    head = f"from alembic import op\n\nrevision, down_revision = {after!r}, {latest!r}\n\n"
    (migrations / f"v{after}.py").write_text(f"{head}def upgrade():\n    op.execute({step!r})\n")
    return RecordSchema(SCHEMA.version + 1, SCHEMA.version, migrations)


def tables(connection: Connection) -> dict[str, Any]:
    found, here = inspect(connection), str(metadata.schema)
    return {
        name: (
            {column["name"]: (str(column["type"]), column["nullable"]) for column in found.get_columns(name, here)},
            found.get_pk_constraint(name, here)["constrained_columns"],
            sorted(str(index["column_names"]) for index in found.get_indexes(name, here)),
        )
        for name in found.get_table_names(here)
    }


def content(connection: Connection) -> dict[str, list[Any]]:
    kept = [metadata.tables[f"secmon.{name}"] for name in ("stores", "rows", "audit", "files", "contents", "authority")]
    return {str(table.name): sorted(map(repr, connection.execute(select(table)))) for table in kept}


def test_the_first_version_is_migrated_and_keeps_what_it_holds(
    first_version: Engine, store: Record, tmp_path: Path
) -> None:
    with first_version.begin() as connection:
        before = content(connection)
        assert len(before["rows"]) > 100
        assert upgrade_tables(connection) == 1
    with first_version.begin() as connection, store.engine.connect() as new:
        check_tables(connection)
        assert upgrade_tables(connection) is None
        assert tables(connection) == tables(new)
        assert content(connection) == before
        row = look(connection)
        assert row is not None
        assert (row.term.number, row.protocol) == (0, 0)

        paths = Paths(tmp_path)
        for kind, path in local_stores(paths):
            with opened(path) as local:
                assert bring_up_to(local, kind, read_contents(connection, kind.name))
                if path == paths.agents_db:
                    with local.connect() as agents:
                        assert [each.name for each in entries(agents)] == ["web-1", "db-1"]
    security = SecurityStore(paths.security_db)
    assert authenticate(security.view(), "admin", PASSWORD).username == "admin"
    security.close()


def test_what_a_node_says_of_tables_of_another_release(first_version: Engine, store: Record, tmp_path: Path) -> None:
    later = next_version(tmp_path, "SELECT 1")
    with first_version.begin() as connection, pytest.raises(SecmonError, match=r"has version 1.*stop all nodes"):
        check_tables(connection, older=True)
    with store.engine.begin() as connection:
        with pytest.raises(SecmonError, match="a node of this release migrates them when it becomes master"):
            check_tables(connection, schema=later)
        check_tables(connection, older=True, schema=later)
        assert upgrade_tables(connection, later) == SCHEMA.version
        for refused in (check_tables, upgrade_tables):
            with pytest.raises(SecmonError, match="upgrade this node"):
                refused(connection)
        check_tables(connection, schema=later)


def test_one_node_migrates_and_the_others_wait_and_find_it_done(store: Record, tmp_path: Path) -> None:
    later = next_version(tmp_path, "CREATE TABLE secmon.once (id integer)")

    def second() -> int | None:
        with store.engine.begin() as connection:
            return upgrade_tables(connection, later)

    def waits() -> bool:
        with store.engine.connect() as connection:
            return bool(connection.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted")).scalar_one())

    other = open_record(store.address, statement_seconds=LIMIT_SECONDS)
    with ThreadPoolExecutor(1) as threads:
        with other.begin() as connection:
            assert upgrade_tables(connection, later) == SCHEMA.version
            waiting = threads.submit(second)
            wait_until(lambda: waits() or waiting.done(), "the other node waits")
        assert waiting.result() is None
    other.dispose()


def test_a_migration_that_fails_changes_nothing(store: Record, tmp_path: Path) -> None:
    broken = next_version(tmp_path, "ALTER TABLE secmon.rows DROP COLUMN row; SELECT 1 / 0")
    with store.engine.connect() as connection:
        before = tables(connection)
    with pytest.raises(DBAPIError, match="division by zero"), store.engine.begin() as connection:
        upgrade_tables(connection, broken)
    with store.engine.connect() as connection:
        check_tables(connection)
        assert tables(connection) == before


def test_an_empty_database_is_not_migrated(record: RecordAddress) -> None:
    engine = open_record(record, statement_seconds=LIMIT_SECONDS)
    with engine.begin() as connection:
        assert upgrade_tables(connection) is None
        with pytest.raises(SecmonError, match="holds no store of record"):
            check_tables(connection, older=True)
        create_tables(connection)
        assert len(connection.execute(select(stores)).all()) == len(RECORDED)
    engine.dispose()


def test_rows_of_an_earlier_release_get_the_defaults_of_new_columns(first_version: Engine, tmp_path: Path) -> None:
    """As ``retired_at`` had been added to the keys since."""
    keys = recorded_rows.c.table == "signing_keys"
    with first_version.begin() as connection:
        upgrade_tables(connection)
        for row in connection.execute(select(recorded_rows.c.row).where(keys)).scalars().all():
            del row["retired_at"]
            connection.execute(recorded_rows.update().where(keys).values(row=row))
        (_, path), *_ = local_stores(Paths(tmp_path))
        with opened(path) as local:
            bring_up_to(local, SECURITY, read_contents(connection, SECURITY.name))
            with local.connect() as security:
                assert security.execute(text("SELECT retired_at FROM signing_keys")).scalars().all() == [None]


def test_a_new_version_of_a_recorded_store_is_one_of_the_record_too() -> None:
    """Nodes that do not know its rows shall take no term (docs/upgrade-secmon.md, "a new version of the tables")."""
    assert (SCHEMA.version, USERS.version, AGENTS.version, TASKS.version) == (3, 3, 1, 1)
