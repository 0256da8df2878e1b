"""States of agents: the effect of each message, in batches and in order."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, insert, select

from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore, number
from secmon.agents.state_updates import (
    FAR_FUTURE_SECONDS,
    ChangedKeepalive,
    ConfigStatusChange,
    Origin,
    Refusal,
    Shutdown,
    SilentAgent,
    Startup,
    StateUpdate,
    UnchangedKeepalive,
    apply,
    reset,
    sweep,
)
from secmon.agents.wire.keepalive import parse

HERE = Origin("master-node", "host-1")
TEXT = (
    "Linux |web-01 |5.15 |#101 |x86_64 [Ubuntu|ubuntu: 22.04.3 LTS (Jammy Jellyfish)] - Product v4.8.2 / abc\n"
    '"env":staging\nfff merged.mg\n#"_agent_ip":192.0.2.77\n'
)
BEAT = ChangedKeepalive(1, 50, parse(TEXT), "not synced", [("env", "staging"), ("#_node_name", "master-node")])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AgentStore]:
    store = AgentStore(tmp_path / "agents.db", durable=False)
    with store.write() as connection:
        for agent in (1, 2, 3):
            row = {"id": agent, "name": f"a{agent}", "register_ip": "any", "internal_key": "k", "date_add": 1}
            connection.execute(insert(agents), row | {"revision": 1})
    yield store
    store.close()


def put(store: AgentStore, *updates: StateUpdate, origin: Origin = HERE) -> None:
    with store.write() as connection:
        apply(connection, updates, origin)


def row(store: AgentStore, agent: int = 1) -> dict[str, Any]:
    with store.read() as connection:
        return dict(connection.execute(select(agents).where(agents.c.id == agent)).one()._mapping)


def test_startup_makes_an_agent_pending_here(store: AgentStore) -> None:
    put(store, Startup(1, 40))
    found = row(store)
    assert (found["connection_status"], found["last_keepalive"], found["status_code"]) == ("pending", 40, 0)
    assert (found["node_name"], found["manager_host"]) == HERE
    assert found["changed"] == 1
    assert row(store, 2)["connection_status"] == "never_connected"


def test_a_changed_keepalive_updates_everything(store: AgentStore) -> None:
    put(store, Startup(1, 40), Shutdown(1, 41), BEAT)
    found = row(store)
    assert (found["connection_status"], found["last_keepalive"]) == ("active", 50)
    assert (found["disconnection_time"], found["status_code"]) == (0, 0)
    assert (found["os_name"], found["os_codename"], found["os_arch"]) == ("Ubuntu", "Jammy Jellyfish", "x86_64")
    assert (found["version"], found["config_sum"], found["merged_sum"]) == ("Product v4.8.2", "abc", "fff")
    assert (found["ip"], found["group_config_status"]) == ("192.0.2.77", "not synced")
    assert msgspec.json.decode(found["labels"]) == [["env", "staging"], ["#_node_name", "master-node"]]


def test_a_keepalive_without_an_address_keeps_the_known_one(store: AgentStore) -> None:
    put(store, BEAT)
    put(store, ChangedKeepalive(1, 60, parse("x - Product v1.0.0\nx merged.mg\n"), "synced", []))
    assert (row(store)["ip"], row(store)["os_name"], row(store)["labels"]) == ("192.0.2.77", None, "[]")


def test_refusals(store: AgentStore) -> None:
    put(store, BEAT, Refusal(1, "v9.0.0"), Refusal(2, None))
    assert (row(store)["status_code"], row(store)["version"], row(store)["connection_status"]) == (
        1,
        "v9.0.0",
        "active",
    )
    assert (row(store, 2)["status_code"], row(store, 2)["version"]) == (2, None)


def test_shutdown_and_return(store: AgentStore) -> None:
    put(store, BEAT, Shutdown(1, 55))
    found = row(store)
    assert (found["connection_status"], found["disconnection_time"], found["status_code"]) == ("disconnected", 55, 3)
    assert found["last_keepalive"] == 50
    put(store, UnchangedKeepalive(1, 60))
    found = row(store)
    assert (found["connection_status"], found["disconnection_time"], found["status_code"]) == ("active", 0, 0)


def test_an_unchanged_keepalive_updates_the_time_only(store: AgentStore) -> None:
    put(store, BEAT)
    before = row(store)
    put(store, UnchangedKeepalive(1, 60), UnchangedKeepalive(1, 70))
    assert row(store) == before | {"last_keepalive": 70, "changed": before["changed"] + 1}


def test_an_unchanged_keepalive_moves_an_agent_from_another_node(store: AgentStore) -> None:
    put(store, BEAT, origin=Origin("worker1", "host-2"))
    put(store, UnchangedKeepalive(1, 60))
    assert row(store)["node_name"] == "master-node"


def test_configured(store: AgentStore) -> None:
    put(store, BEAT, ConfigStatusChange(1, "synced"))
    assert (row(store)["group_config_status"], row(store)["last_keepalive"]) == ("synced", 50)


def test_unknown_agents_are_ignored_and_an_empty_batch_writes_nothing(store: AgentStore) -> None:
    put(store)
    with store.read() as connection:
        assert number(connection, "sequence") == 0
    put(store, UnchangedKeepalive(77, 1), Startup(78, 1))
    with store.read() as connection:
        assert connection.execute(select(agents.c.id)).scalars().all() == [1, 2, 3]


def test_reset_is_limited_to_this_node_and_not_reported(store: AgentStore) -> None:
    put(store, BEAT)
    put(store, Startup(2, 40), origin=Origin("worker1", "host-2"))
    with store.write() as connection:
        assert reset(connection, "master-node", now=90) == 1
    found = row(store)
    assert (found["connection_status"], found["disconnection_time"], found["status_code"]) == ("disconnected", 90, 5)
    assert found["reported"] == found["changed"]
    assert row(store, 2)["connection_status"] == "pending"


def test_sweep_disconnects_silent_agents(store: AgentStore) -> None:
    put(store, BEAT, Startup(2, 39), Startup(3, 40))
    with store.write() as connection:
        assert sweep(connection, now=100, limit=60) == [SilentAgent(2, "a2", "any", 39)]
        assert sweep(connection, now=100, limit=60) == []
    found = row(store, 2)
    assert (found["connection_status"], found["disconnection_time"], found["status_code"]) == ("disconnected", 100, 4)
    assert row(store, 3)["connection_status"] == "pending"


def test_sweep_disconnects_agents_with_an_impossible_keepalive(store: AgentStore) -> None:
    put(store, BEAT, Startup(2, 100 + FAR_FUTURE_SECONDS + 1), Startup(3, 100 + FAR_FUTURE_SECONDS))
    with store.write() as connection:
        assert [lost.id for lost in sweep(connection, now=100, limit=90)] == [2]


def test_thousands_of_keepalives_take_few_statements(store: AgentStore) -> None:
    with store.write() as connection:
        rows = [
            {"id": agent, "name": f"a{agent}", "register_ip": "any", "internal_key": "k", "date_add": 1, "revision": 1}
            for agent in range(10, 2500)
        ]
        connection.execute(insert(agents), rows)
    put(store, *(UnchangedKeepalive(agent, 1) for agent in range(10, 2500)))
    statements = 0

    def count(*_: object) -> None:
        nonlocal statements
        statements += 1

    with store.write() as connection:
        event.listen(connection.engine, "before_cursor_execute", count)
        apply(connection, [UnchangedKeepalive(agent, 2) for agent in range(10, 2500)], HERE)
        event.remove(connection.engine, "before_cursor_execute", count)
    assert statements <= 7
    assert row(store, 2000)["last_keepalive"] == 2


UPDATES = st.lists(
    st.one_of(
        st.builds(Startup, st.integers(1, 3), st.integers(1, 99)),
        st.builds(UnchangedKeepalive, st.integers(1, 3), st.integers(1, 99)),
        st.builds(Shutdown, st.integers(1, 3), st.integers(1, 99)),
        st.builds(Refusal, st.integers(1, 3), st.sampled_from([None, "v9.0.0"])),
        st.builds(ConfigStatusChange, st.integers(1, 3), st.sampled_from(["synced", "not synced"])),
        st.builds(BEAT._replace, agent=st.integers(1, 3), at=st.integers(1, 99)),
    ),
    max_size=8,
)


@given(UPDATES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_batch_is_its_updates_one_by_one(store: AgentStore, updates: list[StateUpdate]) -> None:
    def outcome(batches: list[list[StateUpdate]]) -> list[dict[str, Any]]:
        with store.write() as connection:
            for batch in batches:
                apply(connection, batch, HERE)
            found = [dict(one._mapping) for one in connection.execute(select(agents).order_by(agents.c.id))]
            connection.rollback()
        return [{name: value for name, value in one.items() if name != "changed"} for one in found]

    assert outcome([updates]) == outcome([[one] for one in updates])
