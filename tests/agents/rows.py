"""Rows of agents for tests that read, and what the API shows of them, worked out apart from the product's SQL."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from hypothesis import strategies as st

from secmon.agents.registry.schema import agent_groups, agents, metadata

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
EPOCH = int(NOW.timestamp())
NAMES = ("web", "db", "mail", "Web")
TEXTS = {
    "name": "name",
    "registerIP": "register_ip",
    "status": "connection_status",
    "version": "version",
    "manager": "manager_host",
    "node_name": "node_name",
    "group_config_status": "group_config_status",
    "mergedSum": "merged_sum",
    "configSum": "config_sum",
    **{f"os.{name}": f"os_{name}" for name in ("name", "version", "platform", "codename", "major", "minor")},
    **{f"os.{name}": f"os_{name}" for name in ("uname", "arch", "build")},
}
"""Fields of the API that are texts, and their columns."""

Row = dict[str, Any]


def agent(number: int, **values: Any) -> Row:
    """A row with everything that must be there."""
    required = {"name": f"agent{number}", "register_ip": "any", "internal_key": f"key{number}"}
    return {"id": number, **required, "date_add": EPOCH - 86400, "revision": number, **values}


def rows() -> st.SearchStrategy[list[Row]]:
    """Up to twelve agents in the order of their ids, alike enough that filters and sorts have something to decide."""
    words = st.sampled_from(["alpha", "beta", "al", "zeta", "x y", "10.9", "9"])
    status = st.sampled_from(["active", "disconnected", "pending", "never_connected"])
    optional = {
        column: st.none() | words
        for column in TEXTS.values()
        if column not in ("name", "register_ip", "node_name", "connection_status", "group_config_status")
    }
    fields: dict[str, st.SearchStrategy[Any]] = {
        **optional,
        "register_ip": words,
        "ip": st.none() | words,
        "node_name": words,
        "connection_status": status,
        "group_config_status": st.sampled_from(["synced", "not synced"]),
        "status_code": st.integers(0, 5),
        "date_add": st.integers(EPOCH - 90, EPOCH),
        "last_keepalive": st.none() | st.integers(EPOCH - 90, EPOCH),
        "disconnection_time": st.sampled_from([0, 0, EPOCH - 5, EPOCH - 50]),
        "group": st.none() | st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True).map(",".join),
    }
    ids = st.lists(st.integers(1, 1200), max_size=12, unique=True).map(sorted)
    bodies = st.lists(st.fixed_dictionaries(fields), min_size=12, max_size=12)
    return st.tuples(ids, bodies).map(lambda drawn: [agent(n, **body) for n, body in zip(*drawn, strict=False)])


def database() -> sa.Connection:
    """A connection to a new database in memory with the tables of the agent store."""
    connection = sa.create_engine("sqlite://", poolclass=sa.StaticPool).connect()
    metadata.create_all(connection)
    return connection


def put(connection: sa.Connection, held: Sequence[Row]) -> None:
    """Make these the only agents there are."""
    connection.execute(sa.delete(agent_groups))
    connection.execute(sa.delete(agents))
    if not held:
        return
    names = sorted({name for row in held for name in row})
    connection.execute(agents.insert(), [{name: row.get(name, DEFAULTS.get(name)) for name in names} for row in held])
    members = [(row["id"], priority, name) for row in held for priority, name in enumerate(groups_of(row))]
    if members:
        columns = ("agent_id", "priority", "name")
        connection.execute(agent_groups.insert(), [dict(zip(columns, one, strict=True)) for one in members])


DEFAULTS: Row = {
    "node_name": "unknown",
    "connection_status": "never_connected",
    "disconnection_time": 0,
    "group_config_status": "not synced",
    "status_code": 0,
}


def groups_of(row: Mapping[str, Any]) -> list[str]:
    return str(row["group"]).split(",") if row.get("group") else []


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """The item of a whole row."""
    row = {**DEFAULTS, **row}
    flat = {field: row.get(column) for field, column in TEXTS.items()}
    flat |= {
        "id": f"{row['id']:03}",
        "ip": row.get("ip") or row["register_ip"],
        "status_code": row["status_code"],
        "dateAdd": date(row["date_add"]),
        "lastKeepAlive": date(row.get("last_keepalive")),
        "disconnection_time": date(row["disconnection_time"] or None),
        "group": groups_of(row) or None,
    }
    item: dict[str, Any] = {}
    for field, value in flat.items():
        if value is not None:
            parent, _, name = field.rpartition(".")
            (item.setdefault(parent, {}) if parent else item)[name] = value
    return item


def date(seconds: int | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S+00:00")
