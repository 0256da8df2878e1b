"""The rows that a transaction has changed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Column, Connection, Engine, ForeignKey, Integer, MetaData, Table, Text, delete, insert, update
from sqlalchemy.exc import IntegrityError

from secmon.common.sqlite.engine import open_engine, write_transaction
from secmon.common.sqlite.row_capture import Captured, ChangedRow, RowCapture, all_columns

metadata = MetaData()
agents = Table(
    "agents",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text),
    Column("state", Text),
)
members = Table(
    "members",
    metadata,
    Column("agent", ForeignKey(agents.c.id, ondelete="CASCADE"), primary_key=True),
    Column("group", Text, primary_key=True),
)
meta = Table("meta", metadata, Column("name", Text, primary_key=True), Column("value", Text))
CAPTURED = [
    Captured(agents, ("id", "name")),
    Captured(members, all_columns(members)),
    Captured(meta, all_columns(meta), only=("revision",)),
]


class Store:
    def __init__(self, engine: Engine, capture: RowCapture) -> None:
        self.engine, self.capture = engine, capture

    def changes(self, *statements: Any) -> list[ChangedRow]:
        """What ``statements`` change, in one transaction."""
        with write_transaction(self.engine) as connection:
            self.capture.begin(connection)
            for statement in statements:
                connection.execute(statement)
            return self.capture.changes(connection)


def open_store(path: Path) -> Store:
    engine = open_engine(path)
    with write_transaction(engine) as connection:
        metadata.create_all(connection)
        connection.execute(insert(meta), [{"name": "revision", "value": "1"}, {"name": "sequence", "value": "1"}])
    return Store(engine, RowCapture(engine, CAPTURED))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "x.db")
    yield opened
    opened.engine.dispose()


def test_each_kind_of_change(store: Store) -> None:
    added = store.changes(insert(agents).values(id=1, name="a", state="x"), insert(members).values(agent=1, group="g"))
    assert added == [
        ChangedRow("agents", "[1]", {"id": 1, "name": "a"}),
        ChangedRow("members", '[1,"g"]', {"agent": 1, "group": "g"}),
    ]
    assert store.changes(update(agents).values(name="b")) == [ChangedRow("agents", "[1]", {"id": 1, "name": "b"})]
    moved = store.changes(update(members).values(group="h"))
    assert moved == [
        ChangedRow("members", '[1,"g"]', None),
        ChangedRow("members", '[1,"h"]', {"agent": 1, "group": "h"}),
    ]
    assert store.changes(delete(agents)) == [ChangedRow("agents", "[1]", None), ChangedRow("members", '[1,"h"]', None)]


def test_other_columns_and_other_keys_are_no_change(store: Store) -> None:
    store.changes(insert(agents).values(id=1, name="a"))
    assert store.changes(update(agents).values(state="y")) == []
    assert store.changes(update(meta).where(meta.c.name == "sequence").values(value="2")) == []
    assert store.changes(update(meta).values(value="3")) == [
        ChangedRow("meta", '["revision"]', {"name": "revision", "value": "3"})
    ]


def test_a_replaced_row_is_noted(store: Store) -> None:
    store.changes(insert(agents).values(id=1, name="a"), insert(members).values(agent=1, group="g"))
    changed = store.changes(insert(agents).prefix_with("OR REPLACE").values(id=1, name="c"))
    assert changed == [ChangedRow("agents", "[1]", {"id": 1, "name": "c"}), ChangedRow("members", '[1,"g"]', None)]


def test_what_is_undone_is_not_noted(store: Store) -> None:
    with write_transaction(store.engine) as connection:
        store.capture.begin(connection)
        nested = connection.begin_nested()
        connection.execute(insert(agents).values(id=1, name="a"))
        nested.rollback()
        assert store.capture.changes(connection) == []
    with pytest.raises(IntegrityError):
        store.changes(insert(agents).values(id=2, name="b"), insert(members).values(agent=9, group="g"))
    assert store.changes() == []


_IDS = st.integers(1, 4)
_STEPS = st.one_of(
    st.tuples(st.just("add"), _IDS, st.sampled_from("ab")),
    st.tuples(st.just("drop"), _IDS, st.none()),
    st.tuples(st.just("name"), _IDS, st.sampled_from("cd")),
    st.tuples(st.just("state"), _IDS, st.sampled_from("ef")),
    st.tuples(st.just("join"), _IDS, st.sampled_from("gh")),
)


def _run(connection: Connection, kind: str, agent: int, value: str | None) -> None:
    match kind:
        case "add":
            connection.execute(insert(agents).prefix_with("OR REPLACE").values(id=agent, name=value))
        case "drop":
            connection.execute(delete(agents).where(agents.c.id == agent))
        case "join":
            known = connection.execute(agents.select().where(agents.c.id == agent)).first()
            if known is not None:
                connection.execute(insert(members).prefix_with("OR IGNORE").values(agent=agent, group=value))
        case _:
            connection.execute(update(agents).where(agents.c.id == agent).values({kind: value}))


@given(batches=st.lists(st.lists(_STEPS, max_size=6), max_size=4))
def test_a_copy_that_applies_the_changes_is_equal(
    batches: list[list[tuple[str, int, str | None]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = open_store(tmp_path_factory.mktemp("x") / "x.db")
    copy: dict[tuple[str, str], dict[str, Any]] = {}
    for batch in batches:
        with write_transaction(store.engine) as connection:
            store.capture.begin(connection)
            for step in batch:
                _run(connection, *step)
            for table, key, row in store.capture.changes(connection):
                if row is None:
                    copy.pop((table, key), None)
                else:
                    copy[table, key] = row
    with store.engine.connect() as connection:
        truth = {
            (str(one.table.name), msgspec.json.encode([row[name] for name in one.key]).decode()): {
                name: row[name] for name in one.columns
            }
            for one in CAPTURED[:2]
            for row in connection.execute(one.table.select()).mappings()
        }
    store.engine.dispose()
    assert copy == truth
