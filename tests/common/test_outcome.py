"""Envelopes and merging (conventions.md 1)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.common.errors import SecmonError
from secmon.common.outcome import (
    ItemFailure,
    Messages,
    Outcome,
    Plain,
    absorb,
    envelope,
    envelope_text,
    failed_items,
    merge,
)

TEXTS = Messages(all="all", some="some", none="none")


@pytest.mark.parametrize(
    ("items", "total", "failed", "error", "message"),
    [
        (["a"], None, [], 0, "all"),
        (["a"], None, ["b"], 2, "some"),
        ([], None, ["b"], 1, "none"),
        ([], None, [], 0, "none"),
        ([], 7, [], 0, "all"),
    ],
)
def test_error_and_message(items: list[str], total: int | None, failed: list[str], error: int, message: str) -> None:
    outcome = Outcome(items=list(items), total=total)
    for one in failed:
        outcome.fail(SecmonError(1730), one)
    body = envelope(outcome, TEXTS)
    assert (body["error"], body["message"]) == (error, message)
    assert list(body["data"]) == ["affected_items", "total_affected_items", "total_failed_items", "failed_items"]


def test_failures_are_grouped_sorted_and_unique() -> None:
    failures = [
        ItemFailure(code=4000, extra="x", ids=("010", "2")),
        ItemFailure(code=1730, ids=("b", "a")),
        ItemFailure(code=4000, extra="x", ids=("2", "1")),
        ItemFailure(code=4000, extra="y", ids=("1",)),
    ]
    found = failed_items(failures)
    assert [(entry["error"]["code"], entry["id"]) for entry in found] == [
        (1730, ["a", "b"]),
        (4000, ["1", "2", "010"]),
        (4000, ["1"]),
    ]
    assert found[1]["error"]["message"].endswith(": x")


def test_a_plain_result_has_only_what_it_holds() -> None:
    assert envelope(Plain(message="bye", notes=["late: w1"]), TEXTS) == {"message": "bye. late: w1", "error": 0}
    assert envelope(Plain(data={"a": 1}), TEXTS) == {"data": {"a": 1}, "error": 0}


@given(st.lists(st.text() | st.dictionaries(st.text(), st.integers()), max_size=5), st.integers(0, 3))
def test_items_as_text_are_in_their_place(items: list[Any], more: int) -> None:
    plain = Outcome(items=items, total=len(items) + more, extra={"more": 1}, notes=["[]"])
    plain.fail(SecmonError(1730), "[]")
    text = plain.with_text()
    assert text.items == []
    assert text.with_text() is text
    shown = [envelope_text(one, envelope(one, TEXTS), pretty=False) for one in (plain, text)]
    assert shown[0] == shown[1]


def test_items_as_text_are_never_indented_nor_merged() -> None:
    text = Outcome(items=[1]).with_text()
    with pytest.raises(ValueError, match="indented"):
        envelope_text(text, envelope(text, TEXTS), pretty=True)
    assert merge([text]) == Outcome(total=1)


def test_extra_members_merge() -> None:
    left = Outcome(extra={"n": 1, "l": ["a"], "o": {"x": 1}, "s": "left"})
    right = Outcome(extra={"n": 2, "l": ["a", "b"], "o": {"y": 2}, "s": "right", "new": 0})
    assert merge([left, right]).extra == {"n": 3, "l": ["a", "b"], "o": {"x": 1, "y": 2}, "s": "left", "new": 0}


def test_a_failing_node_costs_its_share() -> None:
    unreachable = absorb(SecmonError(3022), "w1")
    assert unreachable.failures[0].ids == ("w1",)
    assert "w1" in unreachable.node_errors
    users_fault = absorb(SecmonError(1908, "bad file", ids=("w2",)), "w2")
    assert not users_fault.node_errors


outcomes = st.builds(
    Outcome,
    items=st.lists(st.integers()),
    failures=st.lists(
        st.builds(
            ItemFailure,
            code=st.sampled_from([1730, 3021, 4000]),
            ids=st.lists(st.sampled_from(["a", "b", "c"]), min_size=1).map(tuple),
        )
    ),
)


@given(st.lists(outcomes))
def test_merging_loses_nothing(parts: list[Outcome]) -> None:
    counts = [part.count for part in parts]
    items = [item for part in parts for item in part.items]
    ids = {(f.code, one) for part in parts for f in part.failures for one in f.ids}
    body = envelope(merge(parts), TEXTS)
    assert body["data"]["affected_items"] == items
    assert body["data"]["total_affected_items"] == sum(counts)
    assert {(e["error"]["code"], one) for e in body["data"]["failed_items"] for one in e["id"]} == ids
    assert body["data"]["total_failed_items"] == len(ids)
