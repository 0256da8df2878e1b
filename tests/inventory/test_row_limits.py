"""Limits of rows: further ones are refused and counted, and an event a day says so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.inventory.agent_limits import AgentLimits
from secmon.inventory.changes import Changes
from secmon.inventory.row_limits import RowLimits
from secmon.inventory.schema import fim_entries, hotfixes, row_refusals
from secmon.inventory.store import InventoryStore
from tests.inventory.handled_messages import message_of

DAY = 86_400.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[InventoryStore]:
    made = InventoryStore(tmp_path / "inventory.db")
    yield made
    made.close()


def hotfix(name: str, agent: int = 4) -> dict[str, Any]:
    return {"agent_id": agent, "hotfix": name, "scan_id": 0, "checksum": name}


def save(store: InventoryStore, limits: AgentLimits, *names: str, received: float = 10.0) -> Changes:
    with store.write() as connection:
        changes = Changes(connection, limits)
        changes.begin(message_of("syscollector", "", received=received))
        for name in names:
            changes.save(hotfixes, hotfix(name))
        changes.flush_all()
    return changes


def stored(store: InventoryStore) -> set[str]:
    with store.read() as connection:
        return set(connection.execute(hotfixes.select()).scalars("hotfix"))


def test_further_rows_are_refused_and_reported_once_a_day(store: InventoryStore) -> None:
    limits = AgentLimits(RowLimits(2, 2))
    changes = save(store, limits, "a", "b", "a", "c", "d", "b", received=DAY)
    assert stored(store) == {"a", "b"}
    assert changes.refused == 2
    (event,) = changes.events
    assert dict(event.fields) == {"type": "row_limit", "operation_type": "REFUSED", "table": "hotfixes", "limit": "2"}
    assert event.log == "secmon-db: agent 004 reports more than 2 rows for hotfixes: they are refused"
    assert save(store, AgentLimits(RowLimits(2, 2)), "e", received=2 * DAY - 1).events == []
    assert len(save(store, limits, "e", received=2 * DAY).events) == 1
    with store.read() as connection:
        assert connection.execute(row_refusals.select()).all() == [(4, 2)]


def test_rows_that_went_make_room(store: InventoryStore) -> None:
    limits = AgentLimits(RowLimits(2, 2))
    save(store, limits, "a", "b", "c")
    with store.write() as connection:
        changes = Changes(connection, limits)
        assert changes.delete(hotfixes, 4, hotfixes.c.hotfix == "a") == 1
        changes.flush_all()
    save(store, limits, "c", "d")
    assert stored(store) == {"b", "c"}


def test_files_and_agents_have_limits_of_their_own(store: InventoryStore) -> None:
    limits = AgentLimits(RowLimits(2, 1))
    entry = {"type": "file", "date": 1, "changes": 1}
    with store.write() as connection:
        changes = Changes(connection, limits)
        for name in ("a", "b", "c"):
            changes.save(fim_entries, {**entry, "agent_id": 4, "full_path": name, "file": name})
            changes.save(hotfixes, hotfix(name))
            changes.save(hotfixes, hotfix(name, agent=5))
        changes.flush_all()
    assert changes.refused == 1 + 2 + 2
    assert changes.events == []  # no message


class Rollback(Exception):
    """The end of a transaction that is not committed."""


@settings(deadline=None, max_examples=40)
@given(
    batches=st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans()), max_size=8), st.sampled_from([1, 1, 0])
        ),
        max_size=6,
    ),
    limit=st.integers(1, 4),
)
def test_any_sequence_is_refused_exactly(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[list[tuple[str, bool]], int]], limit: int
) -> None:
    store = InventoryStore(tmp_path_factory.mktemp("limits") / "inventory.db")
    limits, expected = AgentLimits(RowLimits(limit, limit)), set[str]()
    try:
        for batch, committed in batches:
            model = set(expected)
            try:
                with store.write() as connection:
                    changes = Changes(connection, limits)
                    for name, saved in batch:
                        if not saved:
                            changes.delete(hotfixes, 4, hotfixes.c.hotfix == name)
                            model.discard(name)
                            continue
                        changes.save(hotfixes, hotfix(name))
                        if name in model or len(model) < limit:
                            model.add(name)
                    changes.flush_all()
                    if not committed:
                        raise Rollback
            except Rollback:
                limits.forget()
            else:
                expected = model
            assert stored(store) == expected
    finally:
        store.close()
