"""Imports what hosts have reported to a 4.x manager: ``queue/db/NNN.db``, a database of each agent.

Tables and columns: agent-data.md 3.4, 4.3, 5.6. Users, services and the like of later releases have none there.
"""

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Float, Integer, Table, insert, select

from secmon.common.sqlite.foreign import ForeignConnection, ForeignError, Row, open_foreign, read_table
from secmon.importers.report import ReportLine
from secmon.inventory import schema

FOLDER = "queue/db"
_DATABASE = re.compile(r"([0-9]{3,10})\.db")
_MAX_INTEGER = 2**63


class Kind(Struct, frozen=True):
    """One of their tables, and the table here that has its rows. ``renamed``: columns here, by their names there."""

    theirs: str
    ours: Table
    renamed: Mapping[str, str] = {}


KINDS = (
    Kind("fim_entry", schema.fim_entries),
    Kind("sys_hwinfo", schema.hardware),
    Kind("sys_osinfo", schema.operating_systems),
    Kind("sys_programs", schema.packages),
    Kind("sys_hotfixes", schema.hotfixes),
    Kind("sys_processes", schema.processes),
    Kind("sys_ports", schema.ports),
    Kind("sys_netiface", schema.network_interfaces),
    Kind("sys_netproto", schema.network_protocols),
    Kind("sys_netaddr", schema.network_addresses),
    Kind("sca_policy", schema.sca_policies),
    Kind("sca_scan_info", schema.sca_scans, {"id": "scan_id"}),
    Kind("sca_check", schema.sca_checks),
    Kind("sca_check_rules", schema.sca_check_rules, {"id_check": "check_id"}),
    Kind("sca_check_compliance", schema.sca_check_compliance, {"id_check": "check_id"}),
)

Rows = Mapping[Table, Sequence[Row]]


class Database(Struct, frozen=True):
    """What was read of an agent's database: ``left_out`` rows are none of their table, or too many."""

    agent: int
    rows: Rows
    left_out: int

    @property
    def count(self) -> int:
        return sum(map(len, self.rows.values()))


def databases(root: Path) -> list[tuple[int, Path]]:
    """The databases of agents in the folder of a manager, by id; the manager's own, and links, are left out."""
    folder = root / FOLDER
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        files = [each.name for each in entries if each.is_file(follow_symlinks=False)]
    found = ((int(match[1]), folder / name) for name in files if (match := _DATABASE.fullmatch(name)))
    return sorted((agent, path) for agent, path in found if agent)


def read_database(agent: int, path: Path, *, max_rows: int, max_file_entries: int) -> Database:
    """The rows of ``agent``, as the store here has them; of each table so many at most.

    Raises ForeignError for what is no such database, or a damaged one; OSError.
    """
    rows: dict[Table, Sequence[Row]] = {}
    left_out = 0
    try:
        with open_foreign(path) as connection:
            policies: dict[object, object] = {}
            for kind in KINDS:
                found = _read(connection, kind)
                if kind.theirs == "sca_check":
                    policies = {each.get("id"): each.get("policy_id") for each in found}
                elif "check_id" in kind.ours.c:
                    found = [{**each, "policy_id": policies.get(each.get("check_id"))} for each in found]
                limit = max_file_entries if kind.ours is schema.fim_entries else max_rows
                sound = list(_sound(agent, kind.ours, found))[:limit]
                rows[kind.ours] = sound
                left_out += len(found) - len(sound)
    except sqlite3.Error as error:
        raise ForeignError(str(error)) from error
    return Database(agent, rows, left_out)


def _read(connection: ForeignConnection, kind: Kind) -> list[dict[str, Any]]:
    """The rows of a table with the names that the columns have here; none when there is no such table."""
    with closing(connection.cursor()) as cursor:
        known = cursor.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (kind.theirs,)).fetchone()
    if known is None:
        return []
    return [
        {kind.renamed.get(name.lower(), name.lower()): value for name, value in row.items()}
        for row in read_table(connection, [kind.theirs])
    ]


def _sound(agent: int, table: Table, found: Sequence[Row]) -> Iterator[Row]:
    """Those that the table can hold, each key once."""
    keys: set[tuple[Any, ...]] = set()
    for theirs in found:
        row = {column.name: _value(column.type, theirs.get(column.name)) for column in table.c}
        row["agent_id"] = agent
        key = tuple(row[column.name] for column in table.primary_key)
        whole = all(column.nullable or row[column.name] is not None for column in table.c)
        if whole and row.get("checksum") != "" and key not in keys:
            keys.add(key)
            yield row


def _value(kind: Any, value: object) -> object:
    """``value`` when a column of this kind can hold it, else None."""
    if isinstance(kind, Integer):
        return value if isinstance(value, int) and -_MAX_INTEGER <= value < _MAX_INTEGER else None
    if isinstance(kind, Float):
        return float(value) if isinstance(value, int | float) else None
    return value if isinstance(value, str) else None


def store(connection: Connection, database: Database, now: float) -> ReportLine:
    """Write the rows of an agent of which nothing is here; what became of it. ``now``: seconds since 1970."""
    name = f"{database.agent:03d}.db"
    if any(_present(connection, kind.ours, database.agent) for kind in KINDS):
        return ReportLine("present", "inventory", name, "the host has reported here", database.agent)
    for table, rows in database.rows.items():
        if rows:
            connection.execute(insert(table), rows)
    if database.count:
        mark = {"agent_id": database.agent, "item": "", "marked": now}  # so that it is compared with advisories
        connection.execute(insert(schema.vulnerability_marks).prefix_with("OR REPLACE"), mark)
    more = f"; {database.left_out} more are damaged or too many, and left out" if database.left_out else ""
    return ReportLine("imported", "inventory", name, f"{database.count} rows{more}", database.agent)


def _present(connection: Connection, table: Table, agent: int) -> bool:
    return connection.execute(select(table.c.agent_id).where(table.c.agent_id == agent).limit(1)).first() is not None
