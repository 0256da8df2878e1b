"""Keepalives of all kinds of agents."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.agents.wire.keepalive import build, complete, parse, split_label
from tests.agents.wire import vectors

CASES = vectors.section("keepalive_parsing")["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_parsing(case: dict[str, Any]) -> None:
    found = parse(case["text"])
    expected = dict(case["expect"])
    assert ("\n".join(found.labels) or None) == expected.pop("labels")
    assert {name: getattr(found, name) for name in ("version", "config_sum", "merged_sum", "agent_ip")} | (
        msgspec.structs.asdict(found.system)
    ) == expected


@given(st.lists(st.sampled_from([*' -/[]():|"!#\n.0a', "merged.mg", "[Ver: ", " - "]), max_size=60))
def test_no_text_breaks_the_parser(pieces: list[str]) -> None:
    text = "".join(pieces)
    parse(text)
    assert complete(text) == "" or complete(text).endswith("\n")


def test_build_is_what_parse_reads() -> None:
    text = build(
        system="Linux |h |5.4 |#1 SMP |x86_64 [Ubuntu|ubuntu: 20.04]",
        version="Product v4.8.2",
        config_sum="a" * 32,
        merged_sum="b" * 32,
        agent_ip="192.0.2.1",
        labels=('"env":x',),
    )
    found = parse(text.removeprefix("#!-"))
    assert (found.version, found.config_sum, found.merged_sum) == ("Product v4.8.2", "a" * 32, "b" * 32)
    assert (found.agent_ip, found.labels, found.system.os_name) == ("192.0.2.1", ('"env":x',), "Ubuntu")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('"env":staging', ("env", "staging")),
        ('!"owner":team: blue', ("!owner", "team: blue")),
        ('#"_sys":', ("#_sys", "")),
        ("env:x", None),
        ('"":x', None),
        ('"open:x', None),
    ],
)
def test_labels(line: str, expected: tuple[str, str] | None) -> None:
    assert split_label(line) == expected
