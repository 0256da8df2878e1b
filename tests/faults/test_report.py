"""The figures of a drill."""

from collections import Counter

import pytest

from tests.faults.__main__ import order
from tests.faults.history import History, Outcome, Write
from tests.faults.report import Done, Report, longest_gap, quantile


@pytest.mark.parametrize(
    ("times", "gap"),
    [
        ([1, 4, 6, 9], 3),
        ([], 4),
        ([3], 6),  # counted from the last change before the fault
        ([3, 5, 6, 20], 3),
        ([4.5, 8], 3.5),
    ],
)
def test_the_longest_time_without_a_change(times: list[float], gap: float) -> None:
    assert longest_gap(times, 5, 9) == gap


def test_quantiles() -> None:
    assert quantile([], 0.5) == 0
    assert [quantile([float(number) for number in range(1, 101)], share) for share in (0.5, 0.99, 1.0)] == [
        51,
        100,
        100,
    ]


def test_the_table_counts_faults_by_kind_and_shows_violations() -> None:
    history = History()
    for at in (1.0, 2.0, 8.0, 9.0, 9.5):
        history.wrote(Write(f"user {at}", "1", at - 0.1, at, Outcome.DONE))
    history.wrote(Write("user x", "1", 3.0, 4.0, Outcome.UNKNOWN))
    faults = [Done("master killed", "node1", 2.5, 6.0), Done("worker killed", "node2", 8.5, 9.0)]
    report = Report(history, faults, ["a broken promise"], ended=9.6)
    assert [round(gap, 1) for _, gap in report.without_change()] == [6.0, 1.0]
    table = [line.split() for line in report.table()]
    assert table[1] == ["master", "killed", "1", "6.0", "6.0", "6.0"]
    assert table[3] == ["all", "2", "6.0", "6.0", "6.0"]
    assert " ".join(table[4]).endswith("5 done, 0 not_done, 1 unknown; reads: 0; violations: 1")
    assert "worker killed (node2) for 0.5 s: 1.0 s without a change" in report.last_line()


def test_every_kind_of_fault_is_as_frequent_as_the_others() -> None:
    found = order(["a", "b", "c"], 9, seed=1)
    assert Counter(found) == {"a": 3, "b": 3, "c": 3}
    assert found == order(["a", "b", "c"], 9, seed=1)
    assert found != order(["a", "b", "c"], 9, seed=2)
