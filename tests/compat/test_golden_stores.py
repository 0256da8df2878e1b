"""Stores as earlier releases have left them: nothing in them is lost."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from secmon.agents.registry.entries import entries, tombstones
from secmon.agents.registry.schema import SCHEMA as AGENTS
from secmon.agents.registry.store import AgentStore
from secmon.agents.replica import verify
from secmon.agents.tasks import lifecycle
from secmon.agents.tasks.schema import SCHEMA as TASKS
from secmon.agents.tasks.store import TaskStore
from secmon.cluster.store_checks import inspect_stores, migrate_stores
from secmon.common.clock import SystemClock
from secmon.common.migrations import revision
from secmon.common.paths import Paths
from secmon.common.sqlite.migration import copies_of, migrate
from secmon.common.sqlite.schema import StoreSchema, open_store
from secmon.security.credentials import authenticate
from secmon.security.store.schema import SCHEMA as SECURITY
from secmon.security.store.schema import SINCE_GENERATION_3
from secmon.security.store.security_store import SecurityStore

HERE = Path(__file__).parent
PASSWORD = "Quarry-7!lamp"


def facts(generation: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / f"generation_{generation}/facts.json").read_text())
    return found


def installed(root: Path, generation: int, **files: str) -> Paths:
    """An installation with the recorded stores; ``files``: names of attributes of Paths, and of recorded files."""
    paths = Paths(root)
    for name, file in files.items():
        target: Path = getattr(paths, name)
        target.parent.mkdir(parents=True)
        shutil.copy(HERE / f"generation_{generation}" / file, target)
    return paths


def content(path: Path) -> dict[str, list[Any]]:
    """All rows of a store, by table, without what says its version."""
    found: dict[str, list[Any]] = {}
    with closing(sqlite3.connect(path)) as raw:
        for name in names_of_tables(raw):
            if name != "alembic_version":
                found[name] = raw.execute(f'SELECT * FROM "{name}" ORDER BY 1, 2').fetchall()  # noqa: S608 - our tables
    found["meta"] = [row for row in found.get("meta", []) if row[0] not in ("schema_version", "schema")]
    return found


def tables(path: Path) -> dict[str, Any]:
    """Columns, indexes and foreign keys of a store, by table."""
    found: dict[str, Any] = {}
    with closing(sqlite3.connect(path)) as raw:
        for name in names_of_tables(raw):
            columns = raw.execute("SELECT * FROM pragma_table_xinfo(?)", (name,)).fetchall()
            keys = raw.execute("SELECT * FROM pragma_foreign_key_list(?) ORDER BY 1, 2", (name,)).fetchall()
            indexes = {}
            for _, index, *kind in raw.execute("SELECT * FROM pragma_index_list(?)", (name,)).fetchall():
                indexes[index] = kind, raw.execute("SELECT * FROM pragma_index_xinfo(?)", (index,)).fetchall()
            found[name] = columns, keys, indexes
    return found


def names_of_tables(raw: sqlite3.Connection) -> list[str]:
    return [name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]


@pytest.mark.parametrize("schema", [SECURITY, AGENTS, TASKS], ids=["security", "agents", "tasks"])
def test_each_version_has_a_migration(schema: StoreSchema) -> None:
    modules = sorted(file.name for file in schema.migrations.glob("v*.py"))
    assert [name[1:5] for name in modules] == [revision(version) for version in range(1, schema.version + 1)]


def test_a_master_of_generation_1(tmp_path: Path) -> None:
    known = facts(1)
    paths = installed(tmp_path, 1, security_db="security.db")
    before = content(paths.security_db)
    assert inspect_stores(paths, worker=False).problems == []
    migrate_stores(paths, SystemClock())
    after = content(paths.security_db)
    same = set(before) - {"meta", "changes", "signing_keys"}
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    [copy] = copies_of(paths.security_db)
    assert content(copy) == before
    with closing(SecurityStore(paths.security_db, create=False)) as store:
        assert (store.store_id(), store.revision()) == (known["store_id"], known["revision"])
        for user in ("admin", "dashboard"):
            assert authenticate(store.view(), user, PASSWORD)
        [key] = store.view().keys.values()
        assert key.kid != known["kid"]
        assert store.view().signing_key == key
        assert store.changes_since(known["revision"] - 1) is None, "replicas are sent a snapshot"


def test_a_worker_of_generation_1(tmp_path: Path) -> None:
    paths = installed(tmp_path, 1, security_db="replica.db")
    found = inspect_stores(paths, worker=True)
    assert (found.problems, found.replaceable) == ([], {})
    migrate_stores(paths, SystemClock())
    with closing(SecurityStore(paths.security_db, writable=False, create=False)) as store:
        assert store.store_id() == facts(1)["store_id"]
        assert store.view().keys == {}
        assert store.view().user("mira") is not None


def test_stores_of_generation_2(tmp_path: Path) -> None:
    known = facts(2)
    paths = installed(tmp_path, 2, security_db="security.db", agents_db="agents.db", tasks_db="tasks.db")
    stores = (paths.security_db, paths.agents_db, paths.tasks_db)
    before = [content(path) for path in stores]
    found = inspect_stores(paths, worker=False)
    assert (found.problems, found.replaceable) == ([], {})
    migrate_stores(paths, SystemClock())
    before[0] |= {name: [] for name in SINCE_GENERATION_3}
    assert [content(path) for path in stores] == before
    assert [len(copies_of(path)) for path in stores] == [1, 0, 0], "the tables of agents and tasks are the same"
    with closing(SecurityStore(paths.security_db, create=False)) as security:
        assert (security.store_id(), security.revision()) == (known["store_id"], known["revision"])
        assert authenticate(security.view(), "admin", PASSWORD)
    with closing(AgentStore(paths.agents_db)) as agents, agents.read() as connection:
        assert [(one.name, one.groups) for one in entries(connection)] == [("web", ()), ("db", ("default", "linux"))]
        assert [one.name for one in tombstones(connection)] == ["old"]
        assert verify(connection)
    with closing(TaskStore(paths.tasks_db)) as tasks, tasks.read() as connection:
        last = lifecycle.last(connection, [1, 2])
        assert {agent: task.status for agent, task in last.items()} == {1: "In progress", 2: "Pending"}


@pytest.mark.parametrize(
    ("generation", "file", "schema"),
    [
        (1, "security.db", SECURITY),
        (1, "replica.db", SECURITY),
        (2, "security.db", SECURITY),
        (2, "agents.db", AGENTS),
        (2, "tasks.db", TASKS),
    ],
)
def test_the_tables_are_those_of_a_new_store(tmp_path: Path, generation: int, file: str, schema: StoreSchema) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    shutil.copy(HERE / f"generation_{generation}" / file, old)
    migrate(old, schema, SystemClock())
    open_store(new, schema).dispose()
    assert tables(old) == tables(new)
    for path in (old, new):
        with closing(sqlite3.connect(path)) as raw:
            assert raw.execute("SELECT version_num FROM alembic_version").fetchall() == [(revision(schema.version),)]
            assert [str(value) for value in raw.execute(schema.number).fetchone()] == [str(schema.version)]
