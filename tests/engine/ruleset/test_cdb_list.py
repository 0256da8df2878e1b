"""Lists: lines, look-ups (ruleset.md 7.1, 7.3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.engine.matching.osmatch import OSMatch
from secmon.engine.ruleset.cdb_list import CdbList, Lookup, read_line

IPS = CdbList(b"192.0.2.:lan\n198.51.100.7:bad\n10.:rfc\n")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("k:v", ("k", "v")),
        ("k:", ("k", "")),
        ("k", None),
        ("k:a:b", ("k", "a:b")),
        ('"a:b":v', ("a:b", "v")),
        ('"a:b":"c:d"', ("a:b", "c:d")),
        ('"::1":loopback', ("::1", "loopback")),
        (" k : v ", (" k ", " v ")),
        ("#c:x", ("#c", "x")),
        ('"a:b', None),
        ('k:"open', None),
        ("k:v\rrest", ("k", "v")),
        ("", None),
    ],
)
def test_lines(line: str, expected: tuple[str, str] | None) -> None:
    assert read_line(line.encode()) == (None if expected is None else tuple(one.encode() for one in expected))


@pytest.mark.parametrize(
    ("lookup", "text", "value", "expected"),
    [
        ("match_key", "198.51.100.7", None, True),
        ("match_key", "192.0.2.1", None, False),
        ("not_match_key", "192.0.2.1", None, True),
        ("address_match_key", "192.0.2.77", None, True),
        ("address_match_key", "10.9.8.7", None, True),
        ("address_match_key", "203.0.113.1", None, False),
        ("not_address_match_key", "203.0.113.1", None, True),
        ("match_key_value", "198.51.100.7", "^b", True),
        ("match_key_value", "198.51.100.7", "^x", False),
        ("match_key_value", "198.51.100.7", None, False),
        ("address_match_key_value", "10.9.8.7", "rfc", True),
        ("address_match_key_value", "10.9.8.7", "lan", False),
        ("address_match_key_value", "203.0.113.1", "rfc", False),
    ],
)
def test_look_ups(lookup: Lookup, text: str, value: str | None, expected: bool) -> None:
    assert IPS.test(lookup, text.encode(), OSMatch(value.encode()) if value else None) is expected


def test_the_first_of_two_values_counts() -> None:
    assert CdbList(b"a:1\na:2\n").value(b"a") == b"1"


@given(st.binary(max_size=40))
def test_any_text_is_a_list(data: bytes) -> None:
    made = CdbList(data)
    assert len(made) <= data.count(b"\n") + 1
    made.address(data)
