"""Members of groups follow the registry, however it changes."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from secmon.agents.registry import registry
from secmon.agents.registry.memberships import Memberships
from secmon.agents.registry.registry import New
from secmon.agents.registry.store import AgentStore, number
from secmon.agents.replica import apply_changes, changes_since


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AgentStore]:
    store = AgentStore(tmp_path / "agents.db", durable=False)
    yield store
    store.close()


def add(store: AgentStore, name: str, *groups: str) -> None:
    with store.write() as connection:
        registry.add(connection, New(name=name, groups=groups), now=1)


def test_expansions(store: AgentStore) -> None:
    members = Memberships(store)
    assert (members.everybody(), members.members("*"), members.members("x")) == ({"000"}, set(), set())
    add(store, "a1", "x", "y")
    add(store, "a2")
    add(store, "a3", "y")
    assert members.everybody() == {"000", "001", "002", "003"}
    assert (members.members("*"), members.members("x"), members.members("y")) == (
        {"001", "003"},
        {"001"},
        {"001", "003"},
    )
    with store.write() as connection:
        registry.remove(connection, [1])
        registry.assign(connection, {2: ["x"]})
    assert (members.members("*"), members.members("x"), members.members("z")) == ({"002", "003"}, {"002"}, set())


def test_another_registry_clears_the_cache(store: AgentStore, tmp_path: Path) -> None:
    members = Memberships(store)
    add(store, "a1", "x")
    assert members.members("x") == {"001"}
    other = AgentStore(tmp_path / "other.db", durable=False)
    add(other, "b1")
    add(other, "b2", "x")
    with other.read() as connection:
        changes = changes_since(connection, None)
    with store.write() as connection:
        apply_changes(connection, changes)
    assert members.members("x") == {"002"}
    other.close()


def test_the_cost_of_a_change_depends_on_its_rows(store: AgentStore) -> None:
    """The expansion is kept: taking the table of members away goes unnoticed."""
    members = Memberships(store)
    add(store, "a1", "x")
    members.members("x")
    with store.write() as connection:
        connection.execute(text("DELETE FROM agent_groups"))
        registry.add(connection, New(name="a2", groups=("x",)), now=1)
    assert members.members("x") == {"001", "002"}


STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(st.sampled_from("xyz"), max_size=2)),
    st.tuples(st.just("groups"), st.integers(1, 5), st.lists(st.sampled_from("xyz"), max_size=3)),
    st.tuples(st.just("remove"), st.integers(1, 5)),
    st.tuples(st.just("insert"), st.integers(1, 5), st.lists(st.sampled_from("xyz"), max_size=2)),
    st.tuples(st.just("look"), st.sampled_from("xyz*")),
)


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=25))
def test_any_history(steps: list[tuple[object, ...]]) -> None:
    with TemporaryDirectory() as folder:
        store = AgentStore(Path(folder) / "agents.db", durable=False)
        kept = Memberships(store)
        for step in steps:
            do(store, kept, *step)
        for group in "xyz*":
            assert kept.members(group) == Memberships(store).members(group)
        store.close()


def do(store: AgentStore, kept: Memberships, action: object, *values: object) -> None:
    with store.write() as connection:
        known = {one for one in range(1, 6) if registry.find(connection, one)}
        match action, *values:
            case "add", list(groups):
                name = f"a{number(connection, 'next_id')}"
                registry.add(connection, New(name=name, groups=tuple(groups)), now=1)
            case "groups", int(agent), list(groups) if agent in known:
                registry.assign(connection, {agent: groups})
            case "remove", int(agent):
                registry.remove(connection, [agent])
            case "insert", int(agent), list(groups) if agent not in known:
                registry.add(connection, New(name=f"b{agent}", id=agent, groups=tuple(groups)), now=1)
    if action == "look":
        kept.members(str(values[0]))
