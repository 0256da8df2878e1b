"""Escaped locations, and the labels the server puts in front of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.agents.wire.address import bare
from secmon.agents.wire.location import escape, source, split, unescape
from tests.agents.wire import vectors

CASES = vectors.section("location_escape")


@pytest.mark.parametrize("case", CASES["escape"], ids=lambda case: case["raw"])
def test_escape(case: dict[str, str]) -> None:
    assert escape(case["raw"]) == case["escaped"]
    assert unescape(case["escaped"]) == case["raw"]


@pytest.mark.parametrize("case", CASES["queue_lines"], ids=lambda case: case["location"])
def test_lines(case: dict[str, str]) -> None:
    assert split(case["line"]) == (case["line"][0], case["location"], case["log"])


@pytest.mark.parametrize("case", vectors.section("uplink_to_engine"), ids=lambda case: case["engine_line"])
def test_uplink(case: dict[str, Any]) -> None:
    key, text = vectors.agent(case["agent"]), case["agent_text"]
    assert text[:2] + source(key.id, key.name, bare(key.address)) + text[2:] == case["engine_line"]


@given(st.text(max_size=60), st.text(max_size=60))
def test_every_location_survives(location: str, log: str) -> None:
    assert split(f"1:{escape(location)}:{log}") == ("1", location, log)


@pytest.mark.parametrize("line", ["", "1", "1:", "1:no end", "1:bar|:", "12:a:b"])
def test_invalid_lines(line: str) -> None:
    assert split(line) is None
