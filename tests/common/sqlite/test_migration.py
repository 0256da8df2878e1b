"""Stores of earlier and later versions, on real files."""

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.common.sqlite import migration
from secmon.common.sqlite.engine import write_transaction
from secmon.common.sqlite.inspection import UnreadableStore, UnusableStore, look_into
from secmon.common.sqlite.migration import copies_of, migrate
from secmon.common.sqlite.schema import StoreSchema, open_store
from tests.common.sqlite.toystore import make_first_version, rows, schema_of
from tests.manual_clock import ManualClock

NOTES = "SELECT id, text, colour FROM notes"
MARKS = "SELECT note FROM marks"
VERSION = "SELECT version_num, user_version FROM alembic_version, pragma_user_version"


@pytest.fixture
def schema(tmp_path: Path) -> StoreSchema:
    return schema_of(tmp_path / "migrations")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "db/notes.db"
    make_first_version(path)
    return path


def test_an_old_store_is_migrated_after_a_copy_aside(old: Path, schema: StoreSchema) -> None:
    migrate(old, schema, ManualClock())
    assert rows(old, NOTES) == [(7, "seven", "blue")]
    assert rows(old, MARKS) == [(7,)], "rebuilding a table takes no rows of others with it"
    assert rows(old, VERSION) == [("0003", 3)]
    [copy] = copies_of(old)
    assert copy.name == "notes.db.version-1-20260101000000"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o640
    assert rows(copy, "SELECT id, words FROM notes") == [(7, "seven")]
    assert rows(copy, "PRAGMA user_version") == [(1,)]
    open_store(old, schema).dispose()


def test_a_current_store_is_left_alone(old: Path, schema: StoreSchema) -> None:
    migrate(old, schema, ManualClock())
    before = old.stat().st_mtime_ns, old.read_bytes()
    migrate(old, schema, ManualClock())
    assert (old.stat().st_mtime_ns, old.read_bytes()) == before
    assert len(copies_of(old)) == 1


def test_a_store_from_before_alembic_with_the_same_tables_is_adopted(tmp_path: Path, schema: StoreSchema) -> None:
    path = tmp_path / "notes.db"
    engine = open_store(path, schema)
    with engine.connect() as connection:
        connection.exec_driver_sql("INSERT INTO notes (id, text) VALUES (1, 'one')")
        connection.exec_driver_sql("DROP TABLE alembic_version")
        connection.commit()
    engine.dispose()
    open_store(path, schema).dispose()
    migrate(path, schema, ManualClock())
    assert rows(path, VERSION) == [("0003", 3)]
    assert rows(path, NOTES) == [(1, "one", "blue")]
    assert copies_of(path) == []


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, schema: StoreSchema) -> None:
    migrate(tmp_path / "notes.db", schema, ManualClock())
    assert not (tmp_path / "notes.db").exists()


@pytest.mark.parametrize(
    "body",
    [
        'op.drop_table("marks")\n    raise RuntimeError("broken")',
        'op.drop_table("marks")\n    op.execute("SELECT broken FROM notes")',
        'op.execute("INSERT INTO marks VALUES (404)")',
    ],
)
def test_a_migration_that_fails_changes_nothing(old: Path, tmp_path: Path, body: str) -> None:
    with pytest.raises(SecmonError, match=r"2012.*is as it was: .*(broken|refers to a row of notes)") as caught:
        migrate(old, schema_of(tmp_path / "migrations", v0003=body), ManualClock())
    assert str(old) in str(caught.value)
    assert rows(old, "SELECT id, words FROM notes") == [(7, "seven")]
    assert rows(old, MARKS) == [(7,)]
    assert rows(old, "PRAGMA user_version") == [(1,)]
    assert copies_of(old) == [], "copies of what did not change would push others out"
    migrate(old, schema_of(tmp_path / "migrations"), ManualClock())
    assert rows(old, NOTES) == [(7, "seven", "blue")]


def test_a_store_that_cannot_be_copied_is_not_migrated(old: Path, schema: StoreSchema) -> None:
    clock = ManualClock()
    (old.parent / f"{old.name}.version-1-{clock.now():%Y%m%d%H%M%S}").mkdir()
    with pytest.raises(SecmonError, match="1019"):
        migrate(old, schema, clock)
    assert rows(old, "PRAGMA user_version") == [(1,)]


def test_the_oldest_copies_go(old: Path, schema: StoreSchema) -> None:
    clock = ManualClock()
    for _ in range(migration.KEPT_COPIES + 2):
        old.unlink(missing_ok=True)
        make_first_version(old)
        clock.advance(1)
        migrate(old, schema, clock)
    start = ManualClock().now()
    kept = [start + timedelta(seconds=second) for second in (3, 4, 5)]
    assert [copy.name for copy in copies_of(old)] == [f"notes.db.version-1-{time:%Y%m%d%H%M%S}" for time in kept]


def test_an_old_store_is_not_opened_before(old: Path, schema: StoreSchema) -> None:
    """A daemon of the earlier version may be at work with it."""
    with pytest.raises(SecmonError, match=r"earlier version .*restart the node"):
        open_store(old, schema)
    assert look_into(old, schema, lambda _: "in order") == "in order"


def test_a_newer_store_is_refused_with_what_to_do(old: Path, schema: StoreSchema) -> None:
    migrate(old, schema, ManualClock())
    earlier = schema._replace(version=2)
    before = old.read_bytes()
    for attempt in (lambda: open_store(old, earlier), lambda: migrate(old, earlier, ManualClock())):
        with pytest.raises(SecmonError, match=r"newer version.*install the newer.*put back notes\.db\.version-2-TIME"):
            attempt()
    with pytest.raises(UnreadableStore, match="newer version"):
        look_into(old, earlier, lambda _: None)
    assert old.read_bytes() == before


@pytest.mark.parametrize("version", ["x", "", "-1", "0000", "99999999999"])
def test_a_version_that_is_none_is_damage(old: Path, schema: StoreSchema, version: str) -> None:
    migrate(old, schema, ManualClock())
    with closing(sqlite3.connect(old)) as raw, raw:
        raw.execute("UPDATE alembic_version SET version_num = ?", (version,))
    with pytest.raises(UnusableStore, match="damaged"):
        look_into(old, schema, lambda _: None)
    for attempt in (lambda: open_store(old, schema), lambda: migrate(old, schema, ManualClock())):
        with pytest.raises(SecmonError, match="damaged"):
            attempt()


def test_many_processes_migrate_once(old: Path, schema: StoreSchema) -> None:
    begin, release = os.pipe()
    children = []
    for _ in range(5):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(release)
                os.read(begin, 1)
                migrate(old, schema, SystemClock())
                open_store(old, schema).dispose()
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    os.close(begin)
    os.close(release)  # they start
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)
    assert rows(old, NOTES) == [(7, "seven", "blue")]
    assert len(copies_of(old)) == 1


def test_opening_a_current_store_does_not_load_alembic(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from secmon.agents.registry.store import AgentStore; from secmon.agents.tasks.store import TaskStore\n"
        "from secmon.cluster.store_checks import migrate_stores; from secmon.common.clock import SystemClock\n"
        "from secmon.common.paths import Paths; from secmon.security.store.security_store import SecurityStore\n"
        "paths = Paths(Path(sys.argv[1]))\n"
        "for _ in range(2):\n"
        "    SecurityStore(paths.security_db).close(); AgentStore(paths.agents_db).revision()\n"
        "    with TaskStore(paths.tasks_db).read(): pass\n"
        "    migrate_stores(paths, SystemClock())\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] == 'alembic'))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_opened_store_is_only_read(tmp_path: Path, schema: StoreSchema) -> None:
    path = tmp_path / "notes.db"
    first = open_store(path, schema)
    with write_transaction(first):
        open_store(path, schema).dispose()  # does not wait for the write lock
    first.dispose()
