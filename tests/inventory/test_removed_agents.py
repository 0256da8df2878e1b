"""Rows of removed agents go, on the master and where the registry is a copy."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import delete, insert, select

from secmon.agents.registry.schema import agents, removed
from secmon.agents.registry.store import AgentStore, put
from secmon.inventory.removed_agents import RemovedAgents
from secmon.inventory.schema import hotfixes, metadata, rootcheck_findings, synchronizations
from secmon.inventory.store import InventoryStore


class Node:
    def __init__(self, folder: Path) -> None:
        self.registry = AgentStore(folder / "agents.db")
        self.inventory = InventoryStore(folder / "inventory.db")
        self.removed = RemovedAgents(self.inventory, self.registry)
        self.revision = 0

    def begin(self) -> None:
        """Nothing was removed yet."""
        assert [self.removed.delete_rows(caught_up=True) for _ in range(2)] == [0, 0]

    def enrol(self, *numbers: int) -> None:
        self.revision += 1
        with self.registry.write() as connection:
            for agent in numbers:
                row = {"id": agent, "name": f"a{agent}", "register_ip": "any", "internal_key": "k", "date_add": 1}
                connection.execute(insert(agents).values(**row, revision=self.revision))
            put(connection, "revision", self.revision)

    def remove(self, agent: int) -> None:
        self.revision += 1
        with self.registry.write() as connection:
            connection.execute(delete(agents).where(agents.c.id == agent))
            row = {"id": agent, "name": f"a{agent}", "register_ip": "any", "internal_key": "k"}
            connection.execute(insert(removed).values(**row, revision=self.revision))
            put(connection, "revision", self.revision)

    def store(self, *numbers: int) -> None:
        with self.inventory.write() as connection:
            for agent in numbers:
                connection.execute(insert(hotfixes).values(agent_id=agent, hotfix="KB1", scan_id=0, checksum="c"))
                found = {"agent_id": agent, "date_first": 1, "date_last": 1, "log": "text"}
                connection.execute(insert(rootcheck_findings).values(**found))
                record = dict.fromkeys(("last_attempt", "last_completion", "n_attempts", "n_completions"), 0)
                record |= {"agent_id": agent}
                sums = {"last_manager_checksum": "", "last_agent_checksum": ""}
                connection.execute(insert(synchronizations).values(component="syscheck", **record, **sums))

    def agents(self) -> set[int]:
        with self.inventory.read() as connection:
            tables = [table for table in metadata.sorted_tables if "agent_id" in table.c]
            return {agent for table in tables for agent in connection.execute(select(table.c.agent_id)).scalars()}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.registry.close()
    made.inventory.close()


def test_rows_go_with_their_agent(node: Node) -> None:
    node.enrol(1, 2, 3)
    node.store(0, 1, 2, 3)
    node.begin()
    node.remove(2)
    assert node.removed.delete_rows(caught_up=True) == 1
    assert node.agents() == {0, 1, 3}
    assert node.removed.delete_rows(caught_up=True) == 0


def test_rows_of_messages_that_were_waiting_go_too(node: Node) -> None:
    node.enrol(1, 2)
    node.begin()
    node.remove(2)
    for caught_up in (False, False, True, True):
        node.removed.delete_rows(caught_up=caught_up)
        assert node.agents() == set()
        node.store(2)
    node.removed.delete_rows(caught_up=True)
    assert node.agents() == {2}  # no message of before is left: this is none of a removed agent


def test_agents_that_were_removed_while_nobody_looked(node: Node) -> None:
    node.enrol(1, 2, 3)
    node.remove(1)
    node.store(0, 1, 2, 7)
    assert node.removed.delete_rows(caught_up=False) == 0
    assert node.removed.delete_rows(caught_up=True) == 2
    node.store(1)
    assert node.removed.delete_rows(caught_up=True) == 1
    assert node.agents() == {0, 2}


def test_another_registry_is_compared_as_a_whole(node: Node) -> None:
    node.enrol(1, 2)
    node.store(1, 2)
    node.begin()
    with node.registry.write() as connection:
        put(connection, "source", "another")
        connection.execute(delete(agents).where(agents.c.id == 2))
    assert node.removed.delete_rows(caught_up=True) == 1
    assert node.agents() == {1}


def test_an_empty_registry_removes_its_tombstones_only(node: Node) -> None:
    node.enrol(1)
    node.remove(1)
    node.store(1, 2)
    assert node.removed.delete_rows(caught_up=True) == 1
    assert node.agents() == {2}
