"""Reports of agents' states: the outbox, validation, and agents that move between nodes."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, select, update

from secmon.agents.registry.queries import read_page
from secmon.agents.registry.schema import Status, agents
from secmon.agents.registry.store import AgentStore
from secmon.agents.report_checks import REPORTED, ReportClock
from secmon.agents.state_reports import (
    KeepaliveReport,
    ReportResult,
    StateReport,
    count_active,
    mark_reported,
    pending_reports,
    store_keepalives,
    store_states,
)
from secmon.agents.state_updates import MAX_STATE_TEXT, ChangedKeepalive, Origin, Refusal, apply
from secmon.agents.wire.keepalive import parse
from secmon.cluster.rpc.wire import MAX_REPLY_BYTES
from secmon.common.query import Query


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AgentStore]:
    made = AgentStore(tmp_path / "agents.db")
    with made.write() as connection:
        for agent in range(1, 6):
            row = {"id": agent, "name": f"a{agent}", "register_ip": "any", "internal_key": "k", "date_add": 1}
            connection.execute(insert(agents), row | {"revision": 1})
    yield made
    made.close()


HERE = Origin("worker1", "host-1")
LATEST = 10_000_000
NOW = ReportClock(latest=LATEST)


def change(store: AgentStore, agent: int, changed: int, **values: object) -> None:
    with store.write() as connection:
        connection.execute(update(agents).where(agents.c.id == agent).values(changed=changed, **values))


def state(agent: int, **values: str | int | None) -> StateReport:
    base: dict[str, str | int | None] = {
        "connection_status": "active",
        "last_keepalive": 100,
        "disconnection_time": 0,
        "status_code": 0,
        "group_config_status": "synced",
    }
    return StateReport(agent, tuple((base | values).get(name) for name in REPORTED))


def row(store: AgentStore, agent: int) -> dict[str, object]:
    with store.read() as connection:
        return dict(connection.execute(select(agents).where(agents.c.id == agent)).one()._mapping)


def test_changes_are_pending_until_they_are_acknowledged(store: AgentStore) -> None:
    change(store, 3, changed=7, connection_status="active", last_keepalive=50)
    change(store, 1, changed=9, connection_status="disconnected")
    with store.read() as connection:
        batch = pending_reports(connection)
    assert [(one.state.id, one.changed) for one in batch] == [(3, 7), (1, 9)]
    assert batch[0].keepalive == KeepaliveReport(3, 50)
    assert batch[1].keepalive is None, "only an active agent is reported in short"
    change(store, 1, changed=12)
    with store.write() as connection:
        mark_reported(connection, batch)
        assert [one.state.id for one in pending_reports(connection)] == [1]


def test_a_keepalive_alone_does_not_change_the_fingerprint(store: AgentStore) -> None:
    seen = []
    for keepalive, version in ((10, "v1"), (20, "v1"), (30, "v2")):
        change(store, 2, changed=keepalive, last_keepalive=keepalive, version=version)
        with store.read() as connection:
            seen.append(pending_reports(connection)[0].fingerprint)
    assert seen[0] == seen[1] != seen[2]


def test_the_latest_state_of_an_agent_that_moved_is_kept(store: AgentStore) -> None:
    with store.write() as connection:
        store_states(connection, "worker2", [state(1, last_keepalive=200)], NOW)
        store_states(connection, "worker1", [state(1, last_keepalive=150, connection_status="disconnected")], NOW)
    assert (row(store, 1)["node_name"], row(store, 1)["connection_status"]) == ("worker2", "active")
    with store.write() as connection:
        store_states(connection, "worker1", [state(1, last_keepalive=201)], NOW)
    assert row(store, 1)["node_name"] == "worker1"
    with store.write() as connection:  # the node that has it may also report what is older: its clock was set back
        store_states(connection, "worker1", [state(1, last_keepalive=90, connection_status="disconnected")], NOW)
    assert (row(store, 1)["last_keepalive"], row(store, 1)["connection_status"]) == (201, "disconnected")


def test_an_unknown_agent_is_not_created(store: AgentStore) -> None:
    with store.write() as connection:
        store_states(connection, "worker1", [state(77)], NOW)
        assert store_keepalives(connection, "worker1", [KeepaliveReport(77, 5)], NOW) == ReportResult([], {})
        assert connection.execute(select(agents.c.id).where(agents.c.id == 77)).first() is None


def test_a_keepalive_suffices_only_for_an_active_agent_of_that_node(store: AgentStore) -> None:
    with store.write() as connection:
        store_states(connection, "worker1", [state(1), state(2)], NOW)
        store_states(connection, "worker2", [state(3)], NOW)
        connection.execute(update(agents).where(agents.c.id == 2).values(connection_status="disconnected"))
        assert store_keepalives(
            connection, "worker1", [KeepaliveReport(one, 300) for one in (1, 2, 3)], NOW
        ) == ReportResult([2, 3], {})
    assert [row(store, one)["last_keepalive"] for one in (1, 2, 3)] == [300, 100, 100]
    with store.read() as connection:
        assert (count_active(connection, "worker1"), count_active(connection, "worker2")) == (1, 1)


@pytest.mark.parametrize(
    "bad",
    [
        StateReport(1, ("x",)),
        state(1, last_keepalive="soon"),
        state(1, last_keepalive=2**40),
        state(1, last_keepalive=LATEST + 1),
        state(1, last_keepalive=-5),
        state(1, disconnection_time=LATEST + 1),
        state(1, disconnection_time=None),
        state(1, connection_status=5),
        state(1, connection_status="asleep"),
        state(1, connection_status=None),
        state(1, group_config_status="perhaps"),
        state(1, status_code=6),
        state(1, status_code=2**70),
        state(1, os_uname="x" * (MAX_STATE_TEXT + 1)),
        state(1, labels="[1"),
        state(1, labels='["a","b"]'),
        state(1, labels="[" * 100_000),
    ],
    ids=lambda bad: str(bad.values)[-60:],
)
def test_invalid_rows_are_refused_and_the_others_stored(store: AgentStore, bad: StateReport) -> None:
    with store.write() as connection:
        refused = store_states(connection, "worker1", [state(2), bad, state(3)], NOW)
    assert list(refused) == [1]
    assert "state of agent 1" in refused[1]
    assert [row(store, one)["node_name"] for one in (1, 2, 3)] == ["unknown", "worker1", "worker1"]


def test_a_state_of_another_release(store: AgentStore) -> None:
    """A newer worker sends more values; no worker sends fewer than those of the first release."""
    with store.write() as connection:
        longer = StateReport(1, (*state(1).values, "new", None))
        assert store_states(connection, "worker1", [longer, state(2)], NOW) == {}
        shorter = StateReport(3, state(3).values[:-1])
        assert list(store_states(connection, "worker1", [shorter], NOW)) == [3]
    assert row(store, 1)["labels"] == row(store, 2)["labels"]
    assert [row(store, one)["node_name"] for one in (1, 2, 3)] == ["worker1", "worker1", "unknown"]


def test_invalid_keepalives_are_refused_and_the_others_stored(store: AgentStore) -> None:
    with store.write() as connection:
        store_states(connection, "worker1", [state(1), state(2)], NOW)
        touches = [
            KeepaliveReport(1, 2**40),
            KeepaliveReport(2, 300),
            KeepaliveReport(2**40, 300),
            KeepaliveReport(0, 300),
            KeepaliveReport(1, -1),
            KeepaliveReport(-3, 5),
        ]
        assert set(store_keepalives(connection, "worker1", touches, NOW).refused) == {1, 2**40, 0, -3}
    assert [row(store, one)["last_keepalive"] for one in (1, 2)] == [100, 300]


def test_times_of_a_worker_are_converted_to_the_clock_of_the_master(store: AgentStore) -> None:
    ahead = ReportClock(latest=LATEST, ahead=40)
    with store.write() as connection:
        store_states(connection, "worker1", [state(1, last_keepalive=500, disconnection_time=450)], ahead)
        store_states(connection, "worker1", [state(2, last_keepalive=500)], ahead)
        store_keepalives(connection, "worker1", [KeepaliveReport(2, 600)], ahead)
    assert (row(store, 1)["last_keepalive"], row(store, 1)["disconnection_time"]) == (460, 410)
    assert (row(store, 2)["last_keepalive"], row(store, 2)["disconnection_time"]) == (560, 0)


def test_an_impossible_stored_time_is_replaced_by_another_node(store: AgentStore) -> None:
    change(store, 1, changed=1, node_name="worker1", connection_status="active", last_keepalive=2**40)
    with store.write() as connection:
        store_states(connection, "worker2", [state(1, last_keepalive=700)], NOW)
    assert (row(store, 1)["node_name"], row(store, 1)["last_keepalive"]) == ("worker2", 700)


def test_a_worker_whose_clock_was_set_back_makes_no_agent_silent(store: AgentStore) -> None:
    with store.write() as connection:
        store_states(connection, "worker1", [state(1, last_keepalive=700), state(2, last_keepalive=700)], NOW)
        store_states(connection, "worker1", [state(1, last_keepalive=100)], NOW)
        store_keepalives(connection, "worker1", [KeepaliveReport(2, 100)], NOW)
    assert [row(store, one)["last_keepalive"] for one in (1, 2)] == [700, 700]
    with store.write() as connection:
        store_keepalives(connection, "worker1", [KeepaliveReport(2, 710)], NOW)
    assert row(store, 2)["last_keepalive"] == 710


def listed(store: AgentStore) -> list[dict[str, object]]:
    """As ``GET /agents`` shows them."""
    with store.read() as connection:
        return list(read_page(connection, Query(limit=10), now=datetime(2026, 1, 1, tzinfo=UTC)).items)


def test_a_page_of_the_longest_states_is_still_an_answer(store: AgentStore) -> None:
    """The state of an agent that its node has cut is one that the master takes, and 500 such agents are a page."""
    long = "\x01" * 10_000
    system = (
        f'{long}x86_64 [{long}|{long}: 1{long} ({long})] - {long} / {long}\n{long} merged.mg\n#"_agent_ip":{long}\n'
    )
    with store.write() as connection:
        apply(connection, [ChangedKeepalive(1, 50, parse(system), "synced", [("a", "b")]), Refusal(2, long)], HERE)
        reports = [one.state for one in pending_reports(connection)]
        assert store_states(connection, "worker1", reports, NOW) == {}
    assert 500 * len(msgspec.json.encode(listed(store)[0])) < MAX_REPLY_BYTES
    assert str(row(store, 1)["os_uname"]) == long[:MAX_STATE_TEXT]


USUAL = ("active", "synced", "not synced", "never_connected", 0, 5, 100, LATEST, "[]", '[["a","b"]]')
VALUES = st.none() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=20) | st.sampled_from(USUAL)
BY_NAME = st.dictionaries(st.sampled_from(REPORTED), VALUES, max_size=4)
ROWS = st.one_of(
    st.builds(StateReport, st.integers(-5, 2**63), st.lists(VALUES, max_size=len(REPORTED) + 1).map(tuple)),
    st.builds(lambda agent, given: state(agent, **given), st.integers(0, 6), BY_NAME),
)
TOUCHES = st.builds(KeepaliveReport, st.integers(-5, 6) | st.integers(), st.integers())


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows=st.lists(ROWS, max_size=6), touches=st.lists(TOUCHES, max_size=4))
def test_every_agent_can_be_shown_after_any_report(
    store: AgentStore, rows: list[StateReport], touches: list[KeepaliveReport]
) -> None:
    with store.write() as connection:
        refused = store_states(connection, "worker1", rows, NOW)
        refused |= store_keepalives(connection, "worker1", touches, NOW).refused
    assert set(refused) <= {one.id for one in rows} | {one.id for one in touches}
    items = listed(store)
    assert [item["id"] for item in items] == ["001", "002", "003", "004", "005"]
    for item in items:
        assert item["status"] in get_args(Status)
        assert str(item.get("lastKeepAlive", "1970")) < "1971"
        assert str(item.get("disconnection_time", "1970")) < "1971"


@pytest.mark.parametrize("moment", [2**40, 2**62, -(2**40), -(2**62)])
def test_an_impossible_stored_time_breaks_no_answer(store: AgentStore, moment: int) -> None:
    change(store, 3, changed=1, connection_status="active", last_keepalive=moment, disconnection_time=moment)
    assert len(listed(store)) == 5
    assert not {"lastKeepAlive", "disconnection_time"} & set(listed(store)[2])
