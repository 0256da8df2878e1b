"""Limits of bytes: further rows are refused exactly, whatever came before."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete

from secmon.inventory.agent_limits import AgentLimits
from secmon.inventory.byte_limits import ByteLimits, size_of
from secmon.inventory.changes import Changes
from secmon.inventory.row_limits import RowLimits
from secmon.inventory.schema import hotfixes, packages, sca_checks
from secmon.inventory.store import InventoryStore
from tests.inventory.handled_messages import message_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[InventoryStore]:
    made = InventoryStore(tmp_path / "inventory.db")
    yield made
    made.close()


def limited(limit: int) -> AgentLimits:
    return AgentLimits(sizes=ByteLimits(limit))


def hotfix(name: str, checksum: str = "", agent: int = 4) -> dict[str, Any]:
    return {"agent_id": agent, "hotfix": name, "scan_id": 0, "checksum": checksum}


def row_size(name: str, checksum: str) -> int:
    return size_of((4, name, 0, None, checksum))


def save(store: InventoryStore, limits: AgentLimits, *rows: dict[str, Any]) -> Changes:
    with store.write() as connection:
        limits.begin(connection)
        changes = Changes(connection, limits)
        changes.begin(message_of("syscollector", "", received=10.0))
        for row in rows:
            changes.save(hotfixes, row)
        changes.flush_all()
    return changes


def stored(store: InventoryStore) -> dict[str, str]:
    with store.read() as connection:
        return {row.hotfix: row.checksum for row in connection.execute(hotfixes.select())}


def test_further_rows_are_refused_and_reported(store: InventoryStore) -> None:
    limits = limited(3 << 20)
    text = "é" * (1 << 19)  # a mebibyte
    changes = save(store, limits, *(hotfix(name, text) for name in "abcd"), hotfix("a", "x"))
    assert list(stored(store)) == ["a", "b"]
    assert (changes.refused_bytes, changes.refused) == (2, 0)
    (event,) = changes.events
    assert dict(event.fields) == {
        "type": "byte_limit",
        "operation_type": "REFUSED",
        "table": "hotfixes",
        "limit": "3",
    }
    assert event.log == "secmon-db: agent 004 reports more than 3 MB, the last for hotfixes: they are refused"
    assert save(store, limits, hotfix("c", text), hotfix("c", text, agent=5)).refused_bytes == 0
    assert stored(store)["a"] == "x"


def test_all_tables_count_together(store: InventoryStore) -> None:
    limits = limited(1503)
    with store.write() as connection:
        changes = Changes(connection, limits)
        changes.save(hotfixes, hotfix("a", "x" * 400))
        package = {"agent_id": 4, "item_id": "p", "scan_id": 0, "checksum": "x" * 400}
        changes.save(packages, package)
        check = {"agent_id": 4, "policy_id": "c", "id": 1, "title": "x" * 400}
        changes.save(sca_checks, check)
        changes.save(sca_checks, {**check, "id": 2, "title": ""})
        changes.save(packages, {**package, "checksum": "y" * 401})
        changes.flush_all()
        assert changes.refused_bytes == 2
        assert [row.id for row in connection.execute(sca_checks.select())] == [1]


@pytest.mark.parametrize("limits", [limited(300), AgentLimits(RowLimits(1000, 2))])
def test_deletions_by_other_processes_make_room(store: InventoryStore, limits: AgentLimits) -> None:
    rows = [hotfix(name, "x" * 20) for name in "abc"]
    save(store, limits, *rows)
    assert list(stored(store)) == ["a", "b"]
    other = InventoryStore(store.path)
    with other.write() as connection:
        connection.execute(delete(hotfixes).where(hotfixes.c.agent_id == 4))
    other.close()
    assert save(store, limits, *rows[1:]).events == []
    assert list(stored(store)) == ["b", "c"]


class Rollback(Exception):
    """The end of a transaction that is not committed."""


STEP = st.one_of(
    st.tuples(st.sampled_from("abcdé"), st.sampled_from(["", "x" * 40, "é" * 40, "x" * 90])),
    st.tuples(st.sampled_from("abcdé"), st.none()),
)


@settings(deadline=None, max_examples=20)
@given(batches=st.lists(st.tuples(st.lists(STEP, max_size=10), st.sampled_from([1, 1, 0])), max_size=6), data=st.data())
def test_any_sequence_is_refused_exactly(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[list[tuple[str, str | None]], int]],
    data: st.DataObject,
) -> None:
    limit = data.draw(st.integers(200, 800))
    store = InventoryStore(tmp_path_factory.mktemp("limits") / "inventory.db")
    limits, expected = limited(limit), dict[str, str]()
    try:
        for batch, committed in batches:
            model = dict(expected)
            try:
                with store.write() as connection:
                    limits.begin(connection)
                    changes = Changes(connection, limits)
                    for name, text in batch:
                        if text is None:
                            changes.delete(hotfixes, 4, hotfixes.c.hotfix == name)
                            model.pop(name, None)
                            continue
                        changes.save(hotfixes, hotfix(name, text))
                        after = {**model, name: text}
                        size, before = (sum(row_size(*row) for row in each.items()) for each in (after, model))
                        model = after if size <= max(limit, before) else model
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
