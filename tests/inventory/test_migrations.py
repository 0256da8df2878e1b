"""The store of an earlier release gets the tables of this one, and its hosts wait for their first scan."""

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import select

from secmon.common.sqlite.migration import migrate
from secmon.inventory.schema import SCHEMA, metadata, packages, vulnerability_marks
from secmon.inventory.store import InventoryStore
from tests.manual_clock import ManualClock

SINCE_2 = ("vulnerabilities", "vulnerability_scans", "vulnerability_marks", "pending_events")


def tables(path: Path) -> dict[str, object]:
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {name: connection.execute(f"PRAGMA table_info({name})").fetchall() for name in names}
        indexes = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql NOT NULL"
        ).fetchall()
    shapes = {
        name: sorted((column, kind, notnull, key) for _, column, kind, notnull, _, key in found)
        for name, found in columns.items()
    }
    return {**shapes, "indexes": sorted(indexes)}


def test_version_1(tmp_path: Path) -> None:
    new, old = tmp_path / "new.db", tmp_path / "old.db"
    for path in (new, old):
        store = InventoryStore(path)
        with store.write() as connection:
            for agent in (4, 4, 5):
                row = {"agent_id": agent, "item_id": f"i{agent}", "scan_id": 0, "checksum": "c"}
                connection.execute(packages.insert().prefix_with("OR REPLACE"), [row])
        store.close()
    with closing(sqlite3.connect(old)) as connection:
        for name in SINCE_2:
            connection.execute(f"DROP TABLE {name}")
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    migrate(old, SCHEMA, ManualClock())
    assert tables(old) == tables(new)
    assert set(SINCE_2) <= set(metadata.tables)
    store = InventoryStore(old)
    with store.read() as connection:
        assert connection.execute(select(vulnerability_marks)).all() == [(4, "", 0.0), (5, "", 0.0)]
    store.close()
