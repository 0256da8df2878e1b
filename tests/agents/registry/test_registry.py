"""Adding, removing and assigning agents: ids, collisions, revisions, digests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, update

from secmon.agents.names import MAX_ID, key_hash
from secmon.agents.registry import registry
from secmon.agents.registry.entries import Entry, entries, tombstones
from secmon.agents.registry.registry import New
from secmon.agents.registry.schema import agent_groups, agents
from secmon.agents.registry.store import AgentStore, number
from secmon.agents.replica import verify
from secmon.common.errors import SecmonError
from secmon.config.auth import Force

NOW = 1_700_000_000
AT_ONCE = Force(after_registration_time=0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AgentStore]:
    store = AgentStore(tmp_path / "agents.db", durable=False)
    yield store
    with store.read() as connection:
        assert verify(connection)
    store.close()


@pytest.fixture
def connection(store: AgentStore) -> Iterator[Connection]:
    with store.write() as connection:
        yield connection


def add(connection: Connection, name: str, force: Force | None = None, **values: object) -> Entry:
    new = New(name=name, **values)  # type: ignore[arg-type]
    return registry.add(connection, new, now=NOW, force=force or Force(enabled=False)).entry


def refused(code: int) -> pytest.RaisesExc[SecmonError]:
    return pytest.RaisesExc(SecmonError, check=lambda error: error.code == code)


def members(connection: Connection, group: str) -> list[int]:
    condition = agent_groups.c.name == group
    return list(connection.execute(select(agent_groups.c.agent_id).where(condition).order_by("agent_id")).scalars())


def test_a_new_agent_gets_the_next_id_and_a_key(connection: Connection) -> None:
    first, second = add(connection, "a1"), add(connection, "a2", groups=("x", "y", "x"))
    assert (first.padded, second.padded) == ("001", "002")
    assert len(first.internal_key) == 64
    assert first.internal_key != second.internal_key
    assert (first.group, second.group, second.date_add) == (None, "x,y", NOW)
    assert entries(connection) == [first, second]
    assert members(connection, "y") == [2]
    assert number(connection, "revision") == second.revision == 2


def test_ids_of_agents_are_never_reused(connection: Connection) -> None:
    add(connection, "a1")
    add(connection, "a9", id=9)
    registry.remove(connection, [9], purge=True)
    assert add(connection, "b1").id == 10
    assert [(one.id, one.purged) for one in tombstones(connection)] == [(9, 1)]


def test_an_agent_with_the_highest_id_does_not_end_enrolment(connection: Connection) -> None:
    add(connection, "top", id=MAX_ID)
    assert [add(connection, name).id for name in ("b1", "b2")] == [1, 2]
    registry.remove(connection, [1], purge=True)
    assert add(connection, "b3").id == 3
    assert number(connection, "next_id") == MAX_ID + 1


def test_a_removed_agent_can_come_back_with_its_id(connection: Connection) -> None:
    old = add(connection, "a1")
    registry.remove(connection, [1])
    again = add(connection, "a1", id=1, key=old.internal_key)
    assert again.line == old.line
    assert tombstones(connection) == []


@pytest.mark.parametrize(
    ("second", "code"),
    [
        (New(name="a1"), 1705),
        (New(name="b1", address="10.0.0.1"), 1706),
        (New(name="b1", address="10.9.0.0"), 1706),
        (New(name="b1", id=1), 1708),
        (New(name="b1", id=0), 1708),
        (New(name="b1", id=100_000_000), 1725),
        (New(name="b1", groups=tuple(f"g{i}" for i in range(129))), 1737),
    ],
)
def test_invalid_settings_are_refused_and_change_nothing(connection: Connection, second: New, code: int) -> None:
    add(connection, "a1", address="10.0.0.1")
    add(connection, "a2", address="10.9.0.0/16")
    before = (entries(connection), number(connection, "revision"), number(connection, "next_id"))
    with refused(code):
        registry.add(connection, second, now=NOW)
    assert (entries(connection), number(connection, "revision"), number(connection, "next_id")) == before


def test_a_host_conflicts_with_a_network(connection: Connection) -> None:
    add(connection, "a1", address="10.9.0.0")
    add(connection, "a2", address="10.9.0.0/16")
    add(connection, "a3", address="10.9.0.0/24")
    add(connection, "a4")
    add(connection, "a5", address="any")
    assert [one.name for one in entries(connection)] == ["a1", "a2", "a3", "a4", "a5"]


def test_no_agent_has_the_managers_name(connection: Connection) -> None:
    with refused(1705):
        registry.add(connection, New(name="boss"), now=NOW, host_name="boss")


def test_one_enrolment_may_replace_two(connection: Connection) -> None:
    add(connection, "a1", address="10.0.0.1")
    add(connection, "a2")
    done = registry.add(connection, New(name="a2", address="10.0.0.1"), now=NOW, force=AT_ONCE)
    assert done.replaced == ("agent 001 (a1) is replaced", "agent 002 (a2) is replaced")
    assert [one.id for one in entries(connection)] == [3]
    assert [one.id for one in tombstones(connection)] == [1, 2]


def test_a_requested_id_replaces_its_agent(connection: Connection) -> None:
    add(connection, "a1")
    assert add(connection, "b1", AT_ONCE, id=1).line.startswith("001 b1 any ")
    assert tombstones(connection) == []


def test_an_agent_with_its_key_is_not_replaced(connection: Connection) -> None:
    old = add(connection, "a1")
    with refused(1705):
        add(connection, "a1", AT_ONCE, key_hash=key_hash(1, "a1", old.internal_key))
    connection.execute(update(agents).values(connection_status="active"))
    with refused(1705):
        add(connection, "a1", AT_ONCE)


def test_groups_of_one_agent(connection: Connection) -> None:
    add(connection, "a1")
    assert registry.assign(connection, {1: ["default", "x"]}) == [1]
    with refused(1734):
        registry.remove_group(connection, 1, "y")
    registry.remove_group(connection, 1, "default")
    registry.remove_group(connection, 1, "x")
    found = registry.find(connection, 1)
    assert found is not None
    assert (found.group, found.group_hash) == ("default", "37a8eec1")
    with refused(1745):
        registry.remove_group(connection, 1, "default")
    assert not registry.assign(connection, {1: ["default"]})
    assert registry.assign(connection, {1: ["x", "y", "x"]})
    assert (members(connection, "x"), members(connection, "default")) == ([1], [])
    registry.assign(connection, {1: [f"g{i}" for i in range(128)]})
    with refused(1737):
        registry.assign(connection, {1: [f"g{i}" for i in range(129)]})
    with refused(1701):
        registry.assign(connection, {2: ["x"]})


def test_a_deleted_group_has_no_members(connection: Connection) -> None:
    for groups in (("x",), ("x", "y"), ("y",), ()):
        add(connection, f"a{len(entries(connection))}", groups=groups)
    revision = number(connection, "revision")
    assert registry.remove_group_everywhere(connection, "x") == [1, 2]
    assert [one.group for one in entries(connection)] == ["default", "y", "y", None]
    assert number(connection, "revision") == revision + 1
    assert registry.remove_group_everywhere(connection, "x") == []
    assert number(connection, "revision") == revision + 1


def test_removing_deletes_the_group_rows(connection: Connection) -> None:
    add(connection, "a1", groups=("x",))
    assert [one.name for one in registry.remove(connection, [1, 5, 1])] == ["a1"]
    assert members(connection, "x") == []
    assert registry.remove(connection, [1]) == []


def test_imported_agents_keep_ids_and_keys(connection: Connection) -> None:
    add(connection, "a1")
    add(connection, "a2")
    registry.remove(connection, [2])
    news = [
        New(name="b1", id=1, key="k"),
        New(name="a1", id=7, key="k"),
        New(name="b3", id=7, key="k", groups=("x",)),
        New(name="a2", id=2, key="old"),
        New(name="b5", id=0, key="k"),
        New(name="b6", key="k"),
    ]
    results = registry.import_agents(connection, news, now=5)
    assert [None if one is None else one.code for one in results] == [1708, 1705, None, None, 1725, 1725]
    assert [(one.id, one.name, one.internal_key, one.group) for one in entries(connection)][1:] == [
        (2, "a2", "old", None),
        (7, "b3", "k", "x"),
    ]
    assert (members(connection, "x"), tombstones(connection)) == ([7], [])
    assert add(connection, "c1").id == 8


def test_ids_of_agents_removed_elsewhere_are_used(connection: Connection) -> None:
    add(connection, "a1")
    stones = [(5, "old", "any", "k"), (1, "a1", "any", "k"), (5, "twice", "any", "k")]
    assert registry.add_tombstones(connection, stones) == [5]
    assert registry.add_tombstones(connection, stones) == []
    assert add(connection, "a2").id == 6
    assert registry.purge_tombstones(connection, [5, 1, 9]) == [5]
    assert registry.purge_tombstones(connection, [5]) == []
    assert [(one.id, one.name, one.purged) for one in tombstones(connection)] == [(5, "twice", 1)]


def test_keys_that_another_program_has_changed(connection: Connection) -> None:
    add(connection, "a1", groups=("x",))
    add(connection, "a2")
    line = (1, "a2", "10.0.0.1", "new")
    assert registry.change_keys(connection, {1: line[1:], 2: ("a1", "any", "k")}) == [1, 2]
    first = entries(connection)[0]
    assert (first.id, first.name, first.register_ip, first.internal_key) == line
    assert registry.change_keys(connection, {1: line[1:]}) == []
