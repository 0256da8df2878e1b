"""A replica of the registry after any changes of the master, in steps of any size."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, select, update

from secmon.agents.registry import registry
from secmon.agents.registry.entries import entries, tombstones
from secmon.agents.registry.registry import New
from secmon.agents.registry.schema import agent_groups, agents
from secmon.agents.registry.store import AgentStore, number
from secmon.agents.replica import Diverged, RegistryChanges, apply_changes, changes_since, position, verify
from secmon.common.errors import SecmonError
from secmon.config.auth import Force

AT_ONCE = Force(disconnected_time=None, after_registration_time=None)


class Pair:
    """A master's store and a replica's."""

    def __init__(self, folder: Path) -> None:
        self.master = AgentStore(folder / "master.db", durable=False)
        self.replica = AgentStore(folder / "replica.db", durable=False)

    def write(self, change: Callable[[Connection], object]) -> None:
        with self.master.write() as connection:
            change(connection)

    def add(self, name: str, **values: object) -> None:
        self.write(lambda connection: registry.add(connection, New(name=name, **values), now=1, force=AT_ONCE))  # type: ignore[arg-type]

    def changes(self, since: int | None) -> RegistryChanges:
        with self.master.read() as connection:
            changes = changes_since(connection, since)
        return msgspec.msgpack.decode(msgspec.msgpack.encode(changes), type=RegistryChanges)

    def follow(self) -> bool:
        """What a worker does: ask for what it lacks, or for everything when that does not fit."""
        with self.master.read() as connection:
            source = changes_since(connection, number(connection, "revision")).source
        with self.replica.read() as connection:
            here = position(connection)
        changes = self.changes(here.revision if here.source == source else None)
        with self.replica.write() as connection:
            return apply_changes(connection, changes)

    def assert_equal(self) -> None:
        with self.master.read() as one, self.replica.read() as two:
            assert entries(one) == entries(two)
            assert tombstones(one) == tombstones(two)
            assert number(one, "next_id") == number(two, "next_id")
            assert number(one, "revision") == number(two, "revision")
            members = select(agent_groups).order_by(*agent_groups.c)
            assert one.execute(members).all() == two.execute(members).all()
            assert verify(one)
            assert verify(two)

    def close(self) -> None:
        self.master.close()
        self.replica.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    yield pair
    pair.close()


def test_agents_can_swap_names(pair: Pair) -> None:
    pair.add("a1", groups=("x",))
    pair.add("a2")
    pair.add("a3")
    assert pair.follow()
    pair.write(lambda connection: registry.remove(connection, [1]))
    pair.add("a1", id=9)
    pair.write(lambda connection: registry.change_keys(connection, {2: ("a3", "any", "k"), 3: ("a2", "any", "k")}))
    assert pair.follow()
    pair.assert_equal()
    assert not pair.follow()


def test_states_stay(pair: Pair) -> None:
    pair.add("a1")
    pair.follow()
    with pair.replica.write() as connection:
        connection.execute(update(agents).values(connection_status="active", changed=5))
    pair.write(lambda connection: registry.assign(connection, {1: ["x"]}))
    pair.follow()
    with pair.replica.write() as connection:
        apply_changes(connection, pair.changes(None))
    with pair.replica.read() as connection:
        row = connection.execute(select(agents)).one()
    assert (row.group, row.connection_status, row.changed) == ("x", "active", 5)


def test_agents_of_another_master_replace_those_with_the_same_ids(pair: Pair, tmp_path: Path) -> None:
    pair.add("a1")
    pair.follow()
    with pair.replica.write() as connection:
        connection.execute(update(agents).values(connection_status="active"))
    pair.master = AgentStore(tmp_path / "other.db", durable=False)
    pair.add("b1")
    assert pair.follow()
    pair.assert_equal()
    with pair.replica.read() as connection:
        assert connection.execute(select(agents.c.connection_status)).scalar_one() == "never_connected"


def test_a_replica_with_local_writes_is_replaced(pair: Pair) -> None:
    pair.add("a1")
    pair.follow()
    with pair.replica.write() as connection:
        registry.add(connection, New(name="own"), now=1)
    pair.add("a2")
    with pair.replica.write() as connection, pytest.raises(Diverged):
        apply_changes(connection, pair.changes(1))
    assert pair.follow()
    pair.assert_equal()


def test_a_damaged_replica_is_detected(pair: Pair) -> None:
    pair.add("a1")
    pair.follow()
    with pair.replica.write() as connection:
        connection.execute(update(agents).values(name="a2"))
        assert not verify(connection)
    pair.add("a2")
    with pair.replica.write() as connection, pytest.raises(Diverged):
        apply_changes(connection, pair.changes(1))
    with pair.replica.write() as connection:
        apply_changes(connection, pair.changes(None))
    pair.assert_equal()


def test_changes_of_a_later_release(pair: Pair) -> None:
    """Fields that are appended, and a digest over columns that this release does not have."""
    pair.add("a")
    pair.follow()
    pair.add("b", groups=("one", "two"))
    for since in (1, None):
        sent: list[object] = msgspec.msgpack.decode(msgspec.msgpack.encode(pair.changes(since)))
        later = [*sent[:3], "f" * 32, sent[4], *([[*row, "new"] for row in rows] for rows in sent[5:7]), 2, "new"]  # type: ignore[attr-defined]
        changes = msgspec.msgpack.decode(msgspec.msgpack.encode(later), type=RegistryChanges)
        with pair.replica.write() as connection:
            assert apply_changes(connection, changes)
        with pair.master.read() as one, pair.replica.read() as two:
            assert entries(one) == entries(two)
            assert position(two).digest == "f" * 32
    with pytest.raises(Diverged), pair.replica.write() as connection:
        apply_changes(connection, msgspec.structs.replace(changes, schema=1))


def test_changes_out_of_order_or_damaged(pair: Pair) -> None:
    pair.add("a1")
    early = pair.changes(None)
    pair.add("a2")
    late = pair.changes(1)
    with pair.replica.write() as connection, pytest.raises(Diverged):
        apply_changes(connection, late)
    with pair.replica.write() as connection:
        assert apply_changes(connection, early)
        assert apply_changes(connection, late)
        assert not apply_changes(connection, late)
    with pair.replica.write() as connection, pytest.raises(Diverged):
        apply_changes(connection, msgspec.structs.replace(early, entries=[]))
    pair.assert_equal()
    assert pair.changes(7).since is None


REFUSALS = {1701, 1705, 1706, 1708}
NAMES = st.sampled_from(["a1", "a2", "a3", "a4"])
IDS = st.integers(1, 6)
STEPS = st.one_of(
    st.tuples(st.just("add"), NAMES, st.none() | IDS, st.sampled_from(["any", "10.0.0.1", "10.0.0.2"])),
    st.tuples(st.just("remove"), IDS, st.booleans()),
    st.tuples(st.just("groups"), IDS, st.lists(st.sampled_from("xyz"), max_size=3)),
    st.tuples(st.just("drop"), st.sampled_from("xyz")),
    st.tuples(st.just("follow")),
    st.tuples(st.just("everything")),
)


@settings(max_examples=60)
@given(st.lists(STEPS, max_size=25))
def test_any_history_is_replicated(steps: list[tuple[object, ...]]) -> None:
    with TemporaryDirectory() as folder:
        pair = Pair(Path(folder))
        for step in steps:
            try:
                run(pair, *step)
            except SecmonError as error:
                if error.code not in REFUSALS:
                    raise
        pair.follow()
        pair.assert_equal()
        pair.close()


def run(pair: Pair, action: object, *values: object) -> None:
    match action, *values:
        case "add", name, agent, address:
            pair.add(str(name), id=agent, address=address)
        case "remove", int(gone), purge:
            pair.write(lambda connection: registry.remove(connection, [gone], purge=bool(purge)))
        case "groups", int(agent), list(groups):
            pair.write(lambda connection: registry.assign(connection, {agent: groups}))
        case "drop", str(group):
            pair.write(lambda connection: registry.remove_group_everywhere(connection, group))
        case "follow", *_:
            pair.follow()
        case _:
            with pair.replica.write() as connection:
                apply_changes(connection, pair.changes(None))
