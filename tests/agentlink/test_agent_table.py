"""The table of agents beside the registry."""

from pathlib import Path

import pytest

from secmon.agentlink.agent_table import AgentTable, read_changes
from secmon.agents.registry.registry import New, add, assign, remove
from secmon.agents.registry.store import AgentStore, put


def follow(table: AgentTable, store: AgentStore) -> tuple[list[int], list[int]]:
    """Numbers of agents that are stale, and of those regrouped."""
    changes = read_changes(store, table.position)
    if changes is None:
        return [], []
    applied = table.apply(changes)
    return [one.number for one in applied.stale], [one.number for one in applied.regrouped]


def test_changes_are_followed(tmp_path: Path) -> None:
    store, table = AgentStore(tmp_path / "agents.db", durable=False), AgentTable()
    assert follow(table, store) == ([], [])
    with store.write() as connection:
        for name, address in (("a1", "any"), ("a2", "192.0.2.7"), ("a3", "192.0.2.0/24"), ("a4", "2001:db8::1")):
            add(connection, New(name=name, address=address), now=1)
    follow(table, store)
    assert sorted(table.by_number) == [1, 2, 3, 4]
    assert sorted(table.by_mark) == [b"!001!", b"!002!", b"!003!", b"!004!"]
    assert {address: one.number for address, one in table.by_address.items()} == {
        "192.0.2.7": 2,
        "192.0.2.0": 3,
        "2001:0DB8:0000:0000:0000:0000:0000:0001": 4,
    }
    assert read_changes(store, table.position) is None
    kept = table.by_number[1]
    with store.write() as connection:
        remove(connection, [2])
        assign(connection, {1: ["web"]})
    assert follow(table, store) == ([2], [1])
    assert table.by_number[1] is kept
    assert kept.delivery.group == "web"
    assert set(table.groups()) == {"web"}
    assert "192.0.2.7" not in table.by_address
    store.close()


def test_another_store_is_read_as_a_whole(tmp_path: Path) -> None:
    store, table = AgentStore(tmp_path / "agents.db", durable=False), AgentTable()
    with store.write() as connection:
        for name in ("a1", "a2"):
            add(connection, New(name=name), now=1)
    follow(table, store)
    kept = table.by_number[2]
    with store.write() as connection:
        connection.exec_driver_sql("delete from agents where id = 1")  # as a replica of another master may
        connection.exec_driver_sql("update agents set revision = 1")
        put(connection, "source", "another")
        put(connection, "revision", 1)
    changes = read_changes(store, table.position)
    assert changes is not None
    assert changes.whole
    assert follow(table, store) == ([1], [])
    assert table.by_number == {2: kept}
    store.close()


def test_a_new_key_is_a_new_agent(tmp_path: Path) -> None:
    store, table = AgentStore(tmp_path / "agents.db", durable=False), AgentTable()
    with store.write() as connection:
        add(connection, New(name="a1"), now=1)
    follow(table, store)
    old = table.by_number[1]
    with store.write() as connection:
        remove(connection, [1])
        add(connection, New(name="a1", id=1, key="f" * 64), now=1)
    assert follow(table, store)[0] == [1]
    assert table.by_number[1] is not old
    store.close()


def test_an_invalid_address_affects_only_its_agent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, table = AgentStore(tmp_path / "agents.db", durable=False), AgentTable()
    with store.write() as connection:
        add(connection, New(name="odd", address="nowhere"), now=1)
        add(connection, New(name="fine"), now=1)
    follow(table, store)
    assert list(table.by_number) == [2]
    assert "not an address" in caplog.text
    store.close()
