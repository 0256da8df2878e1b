"""Counters of senders and receivers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.agents.wire.counters import Counter, check_counter, parse
from tests.agents.wire import vectors

CASES = vectors.section("counters")


@pytest.mark.parametrize("case", CASES["sender"], ids=str)
def test_sender(case: dict[str, Any]) -> None:
    assert Counter(*case["state"]).next() == tuple(case["next"])


@pytest.mark.parametrize("case", CASES["receiver_verify_on"], ids=str)
def test_receiver(case: dict[str, Any]) -> None:
    expected = "accept" if case["accept"] else "duplicate" if case["reason"] == "duplicate" else "auth"
    assert check_counter(Counter(*case["stored"]), Counter(*case["msg"])) == expected


@pytest.mark.parametrize("case", CASES["file_text"], ids=str)
def test_file(case: dict[str, Any]) -> None:
    assert Counter(*case["pair"]).text == case["text"]
    assert parse(case["text"]) == tuple(case["pair"])


@given(st.integers(0, 2**32 - 1), st.integers(0, 9997))
def test_a_receiver_accepts_the_senders_next_counter(major: int, minor: int) -> None:
    assert check_counter(Counter(major, minor), Counter(major, minor).next()) == "accept"
    assert parse(Counter(major, minor).text) == (major, minor)


@pytest.mark.parametrize("text", ["", "x", "1:", "1:2", "-1:2:", ":2:"])
def test_texts_that_are_not_counters(text: str) -> None:
    assert parse(text) is None
