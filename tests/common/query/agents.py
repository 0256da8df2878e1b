"""The sample agents of conventions.md 5.9 in a real SQLite table, declared as the agents collection is."""

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from secmon.common.query import Fields, Op, Page, Query, Sort
from secmon.common.query.columns import Column, Kind
from secmon.common.query.sql_engine import apply, fetch

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
FAR = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)

FIELDS = Fields(
    engine="sql",
    select=(
        *("id", "name", "ip", "status", "os.name", "os.version", "os.platform", "os.major", "os.minor"),
        *("version", "group", "dateAdd", "lastKeepAlive"),
    ),
    required=("id",),
    dates=("lastKeepAlive", "dateAdd"),
    operators={"group": frozenset({Op.EQ, Op.NE, Op.LIKE})},
    numeric=("id",),
)
BY_ID = Sort(("id",))

METADATA = sa.MetaData()
AGENT = sa.Table(
    "agent",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    *(sa.Column(name, sa.Text) for name in ("name", "ip", "status", "os_name", "os_version", "os_platform")),
    *(sa.Column(name, sa.Text) for name in ("os_major", "os_minor", "version", "members", "internal_key")),
    sa.Column("registered", sa.Integer),
    sa.Column("keepalive", sa.Integer),
)
_C = AGENT.c
COLUMNS = {
    "id": Column(_C.id, Kind.ID),
    "name": Column(_C.name),
    "ip": Column(_C.ip),
    "status": Column(_C.status),
    "os.name": Column(_C.os_name),
    "os.version": Column(_C.os_version, sort=(sa.cast(_C.os_major, sa.Integer), sa.cast(_C.os_minor, sa.Integer))),
    "os.platform": Column(_C.os_platform),
    "os.major": Column(_C.os_major),
    "os.minor": Column(_C.os_minor),
    "version": Column(_C.version, Kind.VERSION),
    "group": Column(_C.members, Kind.MEMBERS),
    "dateAdd": Column(_C.registered, Kind.DATE, guard=_C.id != 0),
    "lastKeepAlive": Column(_C.keepalive, Kind.DATE, guard=_C.id != 0),
}


def _agent(number: int, *texts: str | None, seen: float | None, registered_days: float) -> dict[str, object]:
    names = (
        "name",
        "ip",
        "status",
        "os_name",
        "os_version",
        "os_platform",
        "os_major",
        "os_minor",
        "version",
        "members",
    )
    row: dict[str, object] = {"id": number, "internal_key": f"key{number}", **dict(zip(names, texts, strict=True))}
    row["registered"] = int((NOW - timedelta(days=registered_days)).timestamp())
    row["keepalive"] = None if seen is None else int((NOW - timedelta(seconds=seen)).timestamp())
    return row


_U, _V2 = ("Ubuntu", "ubuntu"), "Wazuh v4.8.2"
_TODAY = (*("localhost", "127.0.0.1", "active", _U[0], "22.04", _U[1], "22", "04", _V2, None),)
ROWS = [
    _agent(0, *_TODAY, seen=0, registered_days=0.25) | {"keepalive": int(FAR.timestamp())},
    _agent(
        1, "web-01", "10.0.0.11", "active", _U[0], "22.04.3 LTS", _U[1], "22", "04", "Wazuh v4.8.1", "web,default",
        seen=10, registered_days=1.2,
    ),
    _agent(
        2, "web-02", "10.0.0.12", "disconnected", _U[0], "20.04", _U[1], "20", "04", "Wazuh v4.7.0", "web",
        seen=5000, registered_days=2.3,
    ),
    _agent(
        3, "DB-01", "10.0.0.21", "active", "CentOS Linux", "8", "centos", "8", None, _V2, "db",
        seen=5, registered_days=3.5,
    ),
    _agent(
        4, "win's", "any", "never_connected", None, None, None, None, None, None, "default",
        seen=None, registered_days=9,
    ),
    _agent(
        5, "mac 05", "10.0.0.31", "pending", "macOS", "13.1", "darwin", "13", "1", _V2, "default",
        seen=50, registered_days=60 / 86400,
    ),
    _agent(
        10, "web-10", "10.0.0.110", "active", _U[0], "9.10", _U[1], "9", "10", _V2, "web,db",
        seen=3, registered_days=8.1,
    ),
]  # fmt: skip


def database() -> sa.Connection:
    """A connection to a new database in memory that holds the samples."""
    connection = sa.create_engine("sqlite://", poolclass=sa.StaticPool).connect()
    METADATA.create_all(connection)
    connection.execute(AGENT.insert(), ROWS)
    return connection


def ask(connection: sa.Connection, *, restrict: sa.ColumnElement[bool] | None = None, **parameters: Any) -> Page:
    """``GET /agents`` as far as the query language goes."""
    query = Query.parse(fields=FIELDS, **parameters)
    statements = apply(
        sa.select(AGENT), query, COLUMNS, FIELDS, now=NOW, restrict=restrict, default_sort=BY_ID, tie=(_C.id,)
    )
    return fetch(connection, statements, COLUMNS)


def ids(page: Page) -> str:
    """``"001 003"``."""
    return " ".join(str(item["id"]) for item in page.items)
