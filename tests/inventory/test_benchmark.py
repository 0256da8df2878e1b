"""Results of benchmark scans: the latest round is stored, and rules see every member."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.inventory import benchmark
from secmon.inventory.benchmark import SOURCE, handle_benchmark
from secmon.inventory.message import MalformedMessage
from secmon.inventory.schema import benchmark_results
from tests.inventory.handled_messages import HandledMessages, message_of


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HandledMessages]:
    made = HandledMessages(tmp_path_factory.mktemp("store"), handle_benchmark)
    yield made
    made.store.close()


def scan_info(scan: Any = 55220011, **changed: Any) -> dict[str, Any]:
    figures: dict[str, Any] = {"pass": 98, "fail": 71, "error": 0, "unknown": 1, "notchecked": 36, "score": "57%"}
    names = {"benchmark": "Demo Linux Benchmark", "profile": "Level 1", "timestamp": "2024-05-02T10:00:00.000+02:00"}
    return {"type": "scan_info", "scan_id": scan, "cis": names | figures | changed}


def test_figures_are_stored_and_reported(node: HandledMessages) -> None:
    (event,) = node.handle(message_of(SOURCE, scan_info(), agent=1)).events
    assert (event.decoder, event.location) == ("ciscat", "(web-4) any->wodle_cis-cat")
    assert event.fields[:3] == [
        ("type", "scan_info"),
        ("scan_id", "55220011"),
        ("cis.benchmark", "Demo Linux Benchmark"),
    ]
    assert dict(event.fields)["cis.score"] == "57%"
    (row,) = node.rows(benchmark_results, 1)
    del row["id"]
    assert row == {
        "scan_id": 55220011,
        "scan_time": "2024-05-02T10:00:00.000+02:00",
        "benchmark": "Demo Linux Benchmark",
        "profile": "Level 1",
        "pass": 98,
        "fail": 71,
        "error": 0,
        "notchecked": 36,
        "unknown": 1,
        "score": 57,
    }


def test_results_of_a_check_are_reported_only(node: HandledMessages) -> None:
    body = {"type": "scan_result", "scan_id": 5, "cis": {"rule_id": "1.1.1", "result": "fail"}}
    (event,) = node.handle(message_of(SOURCE, body, agent=2)).events
    assert event.fields == [
        ("type", "scan_result"),
        ("scan_id", "5"),
        ("cis.rule_id", "1.1.1"),
        ("cis.result", "fail"),
    ]
    assert node.rows(benchmark_results, 2) == []


def test_the_latest_round_is_kept_and_a_repeated_message_changes_nothing(node: HandledMessages) -> None:
    for body in (scan_info(1), scan_info(1, profile="Level 2"), scan_info(1, profile="Level 2")):
        node.handle(message_of(SOURCE, body, agent=3))
    assert [row["profile"] for row in node.rows(benchmark_results, 3)] == ["Level 1", "Level 2"]
    node.handle(message_of(SOURCE, scan_info(2), agent=3), message_of(SOURCE, scan_info(2), agent=4))
    assert [(row["scan_id"], row["profile"]) for row in node.rows(benchmark_results, 3)] == [(2, "Level 1")]


def test_figures_that_are_none_are_null(node: HandledMessages) -> None:
    wrong = {"pass": -1, "fail": "7", "error": 1 << 63, "unknown": True, "notchecked": None, "score": "no"}
    node.handle(message_of(SOURCE, scan_info(None, **wrong), agent=6))
    (row,) = node.rows(benchmark_results, 6)
    assert {row[name] for name in ("scan_id", *wrong)} == {None}


@pytest.mark.parametrize(
    ("source", "body"),
    [
        ("wodle_open-scap", scan_info()),
        (SOURCE, {"scan_id": 1, "cis": {}}),
        (SOURCE, {"type": "scan_info", "scan_id": 1}),
        (SOURCE, {"type": "scan_info", "scan_id": 1, "cis": []}),
        (SOURCE, "[]"),
        (SOURCE, '{"type":"scan_info"'),
    ],
)
def test_malformed_messages_are_dropped(node: HandledMessages, source: str, body: Any) -> None:
    with pytest.raises(MalformedMessage):
        node.handle(message_of(source, body, agent=7))
    assert node.rows(benchmark_results, 7) == []


def test_benchmarks_of_a_round_are_bounded(node: HandledMessages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "MAX_RESULTS", 2)
    for name in "ab":
        node.handle(message_of(SOURCE, scan_info(benchmark=name), agent=8))
    with pytest.raises(MalformedMessage, match="2 benchmarks already"):
        node.handle(message_of(SOURCE, scan_info(benchmark="c"), agent=8))
    node.handle(message_of(SOURCE, scan_info(benchmark="b"), agent=8), message_of(SOURCE, scan_info(9), agent=8))
    assert [row["scan_id"] for row in node.rows(benchmark_results, 8)] == [9]


AGENTS = count(100)
VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(st.dictionaries(st.sampled_from(list(scan_info()["cis"])), VALUES | st.lists(VALUES)), VALUES)
def test_no_values_stop_the_reader(node: HandledMessages, changed: dict[str, Any], scan: Any) -> None:
    agent = next(AGENTS)
    node.handle(message_of(SOURCE, scan_info(scan, **changed), agent=agent))
    assert len(node.rows(benchmark_results, agent)) == 1
