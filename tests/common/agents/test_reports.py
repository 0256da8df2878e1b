"""Agents' states on their way to the master: the outbox, and who is right about an agent that moved."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from secmon.common.agents.reports import (
    REPORTED,
    State,
    Touch,
    confirm,
    count_active,
    take,
    touch,
    waiting,
)
from secmon.common.agents.schema import agents
from secmon.common.agents.store import AgentStore
from secmon.common.errors import SecmonError


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AgentStore]:
    made = AgentStore(tmp_path / "agents.db")
    with made.write() as connection:
        for agent in range(1, 6):
            row = {"id": agent, "name": f"a{agent}", "register_ip": "any", "internal_key": "k", "date_add": 1}
            connection.execute(insert(agents), row | {"revision": 1})
    yield made
    made.close()


def change(store: AgentStore, agent: int, changed: int, **values: object) -> None:
    with store.write() as connection:
        connection.execute(update(agents).where(agents.c.id == agent).values(changed=changed, **values))


def state(agent: int, **values: str | int | None) -> State:
    base: dict[str, str | int | None] = {
        "connection_status": "active",
        "last_keepalive": 100,
        "disconnection_time": 0,
        "status_code": 0,
        "group_config_status": "synced",
    }
    return State(agent, tuple((base | values).get(name) for name in REPORTED))


def row(store: AgentStore, agent: int) -> dict[str, object]:
    with store.read() as connection:
        return dict(connection.execute(select(agents).where(agents.c.id == agent)).one()._mapping)


def test_what_changed_waits_until_it_is_confirmed_and_a_newer_change_waits_on(store: AgentStore) -> None:
    change(store, 3, changed=7, connection_status="active", last_keepalive=50)
    change(store, 1, changed=9, connection_status="disconnected")
    with store.read() as connection:
        batch = waiting(connection)
    assert [(one.state.id, one.changed) for one in batch] == [(3, 7), (1, 9)]
    assert batch[0].touch == Touch(3, 50)
    assert batch[1].touch is None, "only an active agent is reported in short"
    change(store, 1, changed=12)
    with store.write() as connection:
        confirm(connection, batch)
        assert [one.state.id for one in waiting(connection)] == [1]


def test_a_keepalive_alone_does_not_change_what_lasts(store: AgentStore) -> None:
    seen = []
    for keepalive, version in ((10, "v1"), (20, "v1"), (30, "v2")):
        change(store, 2, changed=keepalive, last_keepalive=keepalive, version=version)
        with store.read() as connection:
            seen.append(waiting(connection)[0].lasting)
    assert seen[0] == seen[1] != seen[2]


def test_the_latest_news_of_an_agent_that_moved_stand(store: AgentStore) -> None:
    with store.write() as connection:
        take(connection, "worker2", [state(1, last_keepalive=200)])
        take(connection, "worker1", [state(1, last_keepalive=150, connection_status="disconnected")])
    assert (row(store, 1)["node_name"], row(store, 1)["connection_status"]) == ("worker2", "active")
    with store.write() as connection:
        take(connection, "worker1", [state(1, last_keepalive=201)])
    assert row(store, 1)["node_name"] == "worker1"
    with store.write() as connection:  # the node that has it may also tell what is older: its clock was set back
        take(connection, "worker1", [state(1, last_keepalive=90)])
    assert row(store, 1)["last_keepalive"] == 90


def test_an_unknown_agent_is_never_made(store: AgentStore) -> None:
    with store.write() as connection:
        take(connection, "worker1", [state(77)])
        assert touch(connection, "worker1", [Touch(77, 5)]) == []
        assert connection.execute(select(agents.c.id).where(agents.c.id == 77)).first() is None


def test_a_touch_is_enough_only_for_an_active_agent_of_that_node(store: AgentStore) -> None:
    with store.write() as connection:
        take(connection, "worker1", [state(1), state(2)])
        take(connection, "worker2", [state(3)])
        connection.execute(update(agents).where(agents.c.id == 2).values(connection_status="disconnected"))
        assert touch(connection, "worker1", [Touch(one, 300) for one in (1, 2, 3)]) == [2, 3]
    assert [row(store, one)["last_keepalive"] for one in (1, 2, 3)] == [300, 100, 100]
    with store.read() as connection:
        assert (count_active(connection, "worker1"), count_active(connection, "worker2")) == (1, 1)


@pytest.mark.parametrize(
    "bad",
    [
        State(1, ("x",)),
        state(1, last_keepalive="soon"),
        state(1, connection_status=5),
    ],
)
def test_rows_that_make_no_sense_are_refused_whole(store: AgentStore, bad: State) -> None:
    with pytest.raises(SecmonError, match="state of agent 1"), store.write() as connection:
        take(connection, "worker1", [state(2), bad])
    assert row(store, 2)["node_name"] == "unknown"
