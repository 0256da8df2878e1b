"""Rows of hosts for the tests of what reads them: written straight into the stores of the nodes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Table, event

from secmon.inventory.store import InventoryStore
from tests.agents.rows import agent, put
from tests.operations.world import World

NODES = ("alpha", "beta", "gamma")
Row = Mapping[str, Any]

AGENTS = [
    agent(1, node_name="alpha", version="Wazuh v4.8.2", connection_status="active", group="default"),
    agent(2, node_name="beta", version="Wazuh v4.8.2", connection_status="active", group="web"),
    agent(3, node_name="beta", version="Wazuh v4.8.2", connection_status="disconnected", group="web"),
    agent(4, node_name="gamma", version="Wazuh v3.11.4", connection_status="active", group="default"),
    agent(5, connection_status="never_connected", group="default"),
    agent(1000, node_name="gamma", version="Wazuh v4.8.2", connection_status="pending", group="web"),
]
HOLDERS = {one["id"]: one["node_name"] for one in AGENTS if "node_name" in one}
"""The nodes of the agents that have connected."""


def register(world: World, held: Sequence[dict[str, Any]] = AGENTS) -> None:
    """Make these the agents, known to every node."""
    for running in world.nodes.values():
        with running.node.agents.write() as connection:
            put(connection, held)


def store(inventory: InventoryStore, table: Table, *rows: Row) -> None:
    """Add rows; columns that one lacks are null, or what :data:`REQUIRED` says."""
    names = [column.name for column in table.columns if column is not table.autoincrement_column]
    with inventory.write() as connection:
        connection.execute(
            table.insert(), [{name: row.get(name, REQUIRED.get(name)) for name in names} for row in rows]
        )


REQUIRED: Row = {"scan_id": 0, "checksum": "c0"}


def report(world: World, table: Table, *rows: Row) -> None:
    """Add each row on the node of its agent, as the agent's report would be."""
    for name, running in world.nodes.items():
        if own := [row for row in rows if HOLDERS[row["agent_id"]] == name or len(world.nodes) == 1]:
            store(running.node.inventory, table, *own)


def full_row(table: Table) -> Row:
    """A row of agent 002 that has a value in every column."""
    values = {"TEXT": "text", "INTEGER": 2, "FLOAT": 2.5, "BLOB": b"bytes"}
    return {column.name: values[str(column.type)] for column in table.columns}


def package(number: int, name: str, **values: Any) -> Row:
    """A package of an agent."""
    return {"agent_id": number, "item_id": f"{name}-{values.get('version', '1')}", "name": name, **values}


@contextmanager
def counted_statements(world: World) -> Iterator[list[str]]:
    """The statements on the stores of the inventory, of all nodes."""
    statements: list[str] = []

    def count(*args: Any) -> None:
        statements.append(args[2])

    engines = []
    for running in world.nodes.values():
        with running.node.inventory.read() as connection:
            engines.append(connection.engine)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", count)
    yield statements
    for engine in engines:
        event.remove(engine, "before_cursor_execute", count)


def members(body: dict[str, Any], *names: str) -> list[Any]:
    """Of each item these members."""
    return [tuple(item.get(name) for name in names) for item in body["data"]["affected_items"]]
