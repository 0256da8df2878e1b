"""Answers of one node that come together take bounded memory."""

import gc

import pytest

from secmon.cluster.rpc import answer_budget
from secmon.cluster.rpc.answer_budget import AnswerBudget, AnswerBudgets
from secmon.cluster.rpc.wire import ResultReader, pack_result
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome, Result

CALLS = 16
"""In flight to one node at most, by default."""


def received(budget: AnswerBudget, sent: Result) -> Result:
    with budget.share() as share:
        reader = ResultReader(share)
        for chunk in pack_result(sent):
            reader.add(chunk)
        return share.kept_by(reader.result())


def large() -> Outcome:
    """A megabyte, in texts."""
    return Outcome(items=["x" * 1000] * 1000)


def objects() -> Outcome:
    """300 kB, a third of a million objects."""
    return Outcome(items=[[[]] * 1000] * 300)


@pytest.mark.parametrize(("limit", "most", "sent"), [("MAX_NODE_BYTES", 3_500_000, large()),
                                                     ("MAX_NODE_OBJECTS", 1_000_000, objects())])  # fmt: skip
def test_answers_that_are_held_leave_no_room_for_more(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int, sent: Outcome
) -> None:
    monkeypatch.setattr(answer_budget, limit, most)
    counters = Counters()
    budgets = AnswerBudgets(counters)
    held, refused = [], []
    for _ in range(CALLS):
        try:
            held.append(received(budgets.of("rogue"), sent))
        except SecmonError as error:
            refused.append(error)
    assert (len(held), len(refused)) == (3, CALLS - 3)
    assert {error.code for error in refused} == {3036}
    assert "try again later" in refused[0].message
    assert counters.snapshot()["cluster.answers_refused"] == CALLS - 3
    assert received(budgets.of("other"), sent) == held.pop(), "nodes have budgets of their own"
    received(budgets.of("rogue"), sent)
    held.clear()
    gc.collect()
    assert (budgets.of("rogue").bytes, budgets.of("rogue").objects) == (0, 0)


def test_small_answers_always_find_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_budget, "MAX_NODE_BYTES", 0)
    monkeypatch.setattr(answer_budget, "MAX_NODE_OBJECTS", 0)
    budget = AnswerBudget()
    assert received(budget, Outcome(items=["x" * 100] * 1000)).count == 1000  # type: ignore[union-attr]
    with pytest.raises(SecmonError, match="3036"):
        received(budget, large())


def test_an_answer_that_breaks_off_gives_its_share_back() -> None:
    budget, chunks = AnswerBudget(), list(pack_result(large()))
    with budget.share() as share:
        reader = ResultReader(share)
        for chunk in chunks:
            reader.add(chunk)
        assert budget.bytes > 1_000_000
        with pytest.raises(SecmonError, match="3036"):
            reader.add(b"\xff")
    assert (budget.bytes, budget.objects) == (0, 0)
