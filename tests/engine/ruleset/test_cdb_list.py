"""Lists: lines, look-ups (ruleset.md 7.1, 7.3)."""

from datetime import timedelta
from ipaddress import IPv4Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.common.clock import iso_z
from secmon.engine.matching.osmatch import OSMatch
from secmon.engine.ruleset.cdb_list import CdbList, Lookup
from secmon.knowledge.lists.list_text import read_line
from tests.engine.rules_kit import NODE_DECODER, START, Bench, ruleset

NOW = 1_790_000_000
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
    assert IPS.test(lookup, text.encode(), OSMatch(value.encode()) if value else None, NOW) is expected


def test_the_first_of_two_values_counts() -> None:
    assert CdbList(b"a:1\na:2\n").value(b"a", NOW) == b"1"


@given(st.binary(max_size=40))
def test_any_text_is_a_list(data: bytes) -> None:
    made = CdbList(data)
    assert len(made) <= data.count(b"\n") + 1
    made.address(data, NOW)


NETWORKS = CdbList(
    b'10.0.0.0/8:private\n10.1.0.0/20:office\n10.2.:lab\n"2001:db8::/32":"docs"\n/8:a\npath/12:b\n192.0.2.128/25:half\n'
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10.9.9.9", "private"),
        ("10.1.15.255", "office"),
        ("10.1.16.0", "private"),
        ("10.2.3.4", "lab"),
        ("192.0.2.127", None),
        ("192.0.2.128", "half"),
        ("2001:DB8:0::1", "docs"),
        ("2001:db9::1", None),
        ("10.0.0.0/8", "private"),
        ("10.9.9", None),
        ("path/12", "b"),
        ("\u00e9", None),
    ],
)
def test_addresses_are_found_in_networks(text: str, value: str | None) -> None:
    assert NETWORKS.address(text.encode(), NOW) == (None if value is None else value.encode())
    exact = {"10.0.0.0/8", "path/12"}
    assert NETWORKS.test("match_key", text.encode(), None, NOW) is (text in exact)


@given(st.lists(st.ip_addresses(v=4), max_size=5), st.integers(0, 32), st.ip_addresses(v=4))
def test_networks_are_those_of_the_standard_library(starts: list[IPv4Address], bits: int, address: IPv4Address) -> None:
    networks = [ip_network(f"{start}/{bits}", strict=False) for start in starts]
    made = CdbList("".join(f"{each}:x\n" for each in networks).encode())
    assert (made.address(str(address).encode(), NOW) is not None) is any(address in each for each in networks)


def test_entries_expire() -> None:
    made = CdbList(b"a:1\n192.0.2.:2\n192.0.0.0/16:3\n", {b"a": NOW, b"192.0.2.": NOW + 5, b"other": 1})
    assert [made.value(b"a", at) for at in (NOW - 1, NOW, NOW + 1)] == [b"1", None, None]
    assert [made.address(b"192.0.2.9", at) for at in (NOW + 4, NOW + 5)] == [b"2", b"3"]
    assert made.test("not_match_key", b"a", None, NOW)
    assert len(made) == 3


def test_a_rule_looks_up_at_the_moment_of_the_event() -> None:
    rule = """<group name="g,"><rule id="100100" level="5"><decoded_as>node</decoded_as>
    <list field="srcip" lookup="address_match_key">etc/lists/bad</list><description>x</description></rule></group>"""
    until = iso_z(START + timedelta(seconds=60)).encode()
    lists = {"etc/lists/bad": b"192.0.2.0/24:x\n", "etc/lists/bad.expiry": b"192.0.2.0/24:" + until}
    bench = Bench(ruleset(NODE_DECODER, rule, lists=lists))
    assert [bench.node("GET", at=at) for at in (59, 60, 30)] == [100100, None, 100100]
