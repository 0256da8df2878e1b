"""Databases of a 4.x manager with what a host has reported."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from secmon.common.sqlite.foreign import ForeignError
from secmon.importers.manager.inventory import databases, read_database, store
from secmon.inventory import schema
from secmon.inventory.store import InventoryStore

LIMITS = {"max_rows": 50, "max_file_entries": 50}
TABLES = """
CREATE TABLE fim_entry (full_path TEXT PRIMARY KEY, file TEXT, type TEXT, date INTEGER, changes INTEGER, size INTEGER,
  perm TEXT, checksum TEXT);
CREATE TABLE sys_programs (scan_id INTEGER, format TEXT, name TEXT, size INTEGER, version TEXT, cpe TEXT, msu_name TEXT,
  scan_time TEXT, checksum TEXT, item_id TEXT);
CREATE TABLE sys_ports (scan_id INTEGER, protocol TEXT, local_port INTEGER, PID INTEGER, checksum TEXT, item_id TEXT);
CREATE TABLE sca_policy (name TEXT, id TEXT);
CREATE TABLE sca_scan_info (id INTEGER, policy_id TEXT, pass INTEGER, score INTEGER);
CREATE TABLE sca_check (scan_id INTEGER, id INTEGER, policy_id TEXT, title TEXT, result TEXT);
CREATE TABLE sca_check_rules (id_check INTEGER, type TEXT, rule TEXT);
INSERT INTO fim_entry VALUES ('/etc/hosts', '/etc/hosts', 'file', 1700000000, 1, 12, 'rw-r--r--', 'c1');
INSERT INTO fim_entry VALUES ('/etc/bad', NULL, 'file', 1700000000, 1, 12, '', 'c2');
INSERT INTO sys_programs VALUES (0, 'deb', 'curl', 700, '8.5.0-2', 'cpe', '', '2026/01/01 00:00:00', 'c3', 'i1');
INSERT INTO sys_programs VALUES (0, 'deb', 'twice', 700, '1', '', '', '', 'c3', 'i1');
INSERT INTO sys_programs VALUES (0, 'deb', 'unsummed', 'many', '1', '', '', '', '', 'i2');
INSERT INTO sys_ports VALUES (0, 'tcp', 22, 812, 'c4', 'p1');
INSERT INTO sca_policy VALUES ('Basics', 'basics');
INSERT INTO sca_scan_info VALUES (77, 'basics', 1, 50);
INSERT INTO sca_check VALUES (77, 1001, 'basics', 'A title', 'passed');
INSERT INTO sca_check_rules VALUES (1001, 'file', 'f:/etc/passwd'), (9999, 'file', 'of no check');
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    (tmp_path / "queue/db").mkdir(parents=True)
    path = tmp_path / "queue/db/007.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(TABLES)
    return path


@pytest.fixture
def inventory(tmp_path: Path) -> Iterator[InventoryStore]:
    made = InventoryStore(tmp_path / "inventory.db")
    yield made
    made.close()


def rows(inventory: InventoryStore, table: Any) -> list[dict[str, Any]]:
    with inventory.read() as connection:
        found = connection.execute(select(table)).mappings()
        return [{name: value for name, value in row.items() if value is not None} for row in found]


def test_rows_are_taken_over_once(old: Path, inventory: InventoryStore) -> None:
    assert [(agent, path.name) for agent, path in databases(old.parents[2])] == [(7, "007.db")]
    database = read_database(7, old, **LIMITS)
    assert (database.count, database.left_out) == (7, 4)
    with inventory.write() as connection:
        line = store(connection, database, now=100.0)
    assert str(line) == "imported   inventory 7 007.db: 7 rows; 4 more are damaged or too many, and left out"
    (package,) = rows(inventory, schema.packages)
    assert package == {
        "agent_id": 7, "item_id": "i1", "scan_id": 0, "format": "deb", "name": "curl", "version": "8.5.0-2",
        "size": 700, "scan_time": "2026/01/01 00:00:00", "checksum": "c3",
    }  # fmt: skip
    assert rows(inventory, schema.ports)[0]["pid"] == 812
    assert rows(inventory, schema.sca_scans)[0]["scan_id"] == 77
    assert rows(inventory, schema.sca_check_rules) == [
        {"agent_id": 7, "policy_id": "basics", "check_id": 1001, "type": "file", "rule": "f:/etc/passwd"}
    ]
    assert rows(inventory, schema.vulnerability_marks) == [{"agent_id": 7, "item": "", "marked": 100.0}]
    with inventory.write() as connection:
        assert store(connection, database, now=200.0).result == "present"


def test_more_rows_than_an_agent_may_have(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection, connection:
        many = [(f"/{number}", f"/{number}") for number in range(60)]
        connection.executemany("INSERT INTO fim_entry VALUES (?, ?, 'file', 1, 1, 1, '', 'c')", many)
    database = read_database(7, old, **LIMITS)
    assert (len(database.rows[schema.fim_entries]), database.left_out) == (50, 4 + 11)


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE sca_check; CREATE VIEW sca_check AS SELECT 1 AS id, 'p' AS policy_id",
        "CREATE TABLE sys_hotfixes (hotfix TEXT, checksum TEXT AS (hex(zeroblob(1000))) VIRTUAL)",
    ],
    ids=["a view", "a computed column"],
)
def test_databases_that_make_much_of_little_are_refused(old: Path, damage: str) -> None:
    with closing(sqlite3.connect(old)) as connection:
        connection.executescript(damage)
    with pytest.raises(ForeignError):
        read_database(7, old, **LIMITS)


def test_damaged_files_are_named_and_links_left_out(old: Path) -> None:
    data = bytearray(old.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    old.write_bytes(data)
    with pytest.raises(ForeignError):
        read_database(7, old, **LIMITS)
    old.rename(old.with_name("elsewhere"))
    old.symlink_to("elsewhere")
    assert databases(old.parents[2]) == []
