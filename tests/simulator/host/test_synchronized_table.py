"""The agent's side of the synchronization, by the worked example of agent-data.md 2.7."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from secmon.simulator.host.synchronized_table import Row, SynchronizedTable

FOLDER = "/srv/demo/"
SUMS = {
    "alpha": "538974771b93ca45ea24254fe016187822aa70ef",
    "bravo": "f13f518249ac594d9dacde1f75315fc599b39c4e",
    "charlie": "1e707e9da78f6ee0845924acb8556482f45a66b5",
    "delta": "7570e94a7c01b816f9d2e9d8ffe65399cde9a07c",
    "echo": "881a316dfaf8bb81cb05d92f332684210b6b05b2",
}
ROUND = 1_700_000_100


@pytest.fixture
def table() -> SynchronizedTable:
    made = SynchronizedTable("fim_file")
    for name in reversed(SUMS):
        made.put(FOLDER + name, Row(SUMS[name], {"timestamp": 1, "attributes": {"checksum": SUMS[name]}}))
    made.begin(ROUND)
    return made


def data(begin: str, end: str) -> Mapping[str, Any]:
    return {"begin": FOLDER + begin, "end": FOLDER + end, "id": ROUND}


def checks(table: SynchronizedTable, command: str, begin: str, end: str) -> list[tuple[str, ...]]:
    found = []
    for message in table.answer(command, data(begin, end)):
        values = message["data"]
        names = [values[key].removeprefix(FOLDER) for key in ("begin", "end", "tail") if key in values]
        found.append((message["type"].removeprefix("integrity_check_"), *names, values["checksum"]))
    return found


def test_a_round_begins_with_all_rows(table: SynchronizedTable) -> None:
    expected = {**data("alpha", "echo"), "checksum": "553bfb894378f725abfe62409f4b79ebab48aa2c"}
    assert table.begin(ROUND) == {"component": "fim_file", "type": "integrity_check_global", "data": expected}


def test_a_range_that_differs_is_split(table: SynchronizedTable) -> None:
    assert checks(table, "checksum_fail", "alpha", "echo") == [
        ("left", "alpha", "bravo", "charlie", "97350ea5d7b2fd49cd57329145a1af04aef627e3"),
        ("right", "charlie", "echo", "dd9c31959080ef75787fa5697fac230c2c4aabfc"),
    ]
    assert checks(table, "checksum_fail", "charlie", "echo") == [
        ("left", "charlie", "charlie", "delta", "799a808349e02c3b17dbefe9561bc165605928f3"),
        ("right", "delta", "echo", "4a5c78788f99dd127b9c094715d92ff5a6fa34e0"),
    ]


def test_a_single_row_and_missing_ranges_are_sent(table: SynchronizedTable) -> None:
    for command, begin, end, sent in (
        ("checksum_fail", "bravo", "bravo", ["bravo"]),
        ("no_data", "charlie", "echo", ["charlie", "delta", "echo"]),
        ("no_data", "x", "y", []),
        ("checksum_fail", "alpha", "alphz", []),
    ):
        messages = list(table.answer(command, data(begin, end)))
        assert [message["data"]["index"] for message in messages] == [FOLDER + name for name in sent]
        assert {message["type"] for message in messages} <= {"state"}


def test_answers_to_later_rounds_are_ignored(table: SynchronizedTable) -> None:
    assert list(table.answer("no_data", {**data("alpha", "echo"), "id": ROUND + 1})) == []
    assert list(table.answer("no_data", {**data("alpha", "alpha"), "id": ROUND - 5}))
    assert list(table.answer("no_data", data("alpha", "echo"))) == []  # the smaller number is the current one now


def test_an_empty_table_is_cleared(table: SynchronizedTable) -> None:
    for name in SUMS:
        table.remove(FOLDER + name)
    assert table.begin(7) == {"component": "fim_file", "type": "integrity_clear", "data": {"id": 7}}


def test_keys_are_ordered_by_their_bytes() -> None:
    table = SynchronizedTable("syscollector_processes")
    for key in ("2", "10", "é", "z"):
        table.put(key, Row("sum", {}))
    message = table.begin(1)
    assert (message["data"]["begin"], message["data"]["end"]) == ("10", "é")
    assert json.dumps(message)
