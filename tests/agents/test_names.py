"""Ids, addresses and key hashes, as agents compute them."""

import pytest

from secmon.agents.names import (
    AGENT_NAME,
    GROUP_NAME,
    bare_address,
    fits_key_file,
    group_hash,
    key_hash,
    normal_address,
    padded,
    parse_id,
)
from tests.agents.wire.vectors import agent, section


def test_key_hashes_are_those_that_agents_send() -> None:
    for case in section("key_derivation"):
        one = agent(case["agent"])
        assert key_hash(int(one.id), one.name, one.key) == case["enrolment_key_sha1"]


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("any", "any"),
        ("10.9.8.7", "10.9.8.7"),
        ("10.9.0.0/16", "10.9.0.0/16"),
        ("10.0.0.1/8", "10.0.0.1/8"),
        ("10.20.0.0/255.255.0.0", "10.20.0.0/16"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
        ("2001:db8::17", "2001:0DB8:0000:0000:0000:0000:0000:0017"),
        ("2001:db8::/32", "2001:0DB8:0000:0000:0000:0000:0000:0000/32"),
    ],
)
def test_addresses_have_one_form(given: str, stored: str) -> None:
    assert normal_address(given) == stored == normal_address(stored)


@pytest.mark.parametrize("text", ["", "10.9.8", "10.9.8.7/33", "ANY", "host", "fe80::1%eth0", "10.0.0.0/255.0.255.0"])
def test_invalid_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        normal_address(text)


def test_small_texts() -> None:
    assert [padded(one) for one in (0, 7, 1024)] == ["000", "007", "1024"]
    assert [parse_id(one) for one in ("007", "0", "99999999", "100000000", "-1", "a", "", "٣")] == [
        7, 0, 99_999_999, None, None, None, None, None,
    ]  # fmt: skip
    assert bare_address("10.0.0.0/8") == "10.0.0.0"
    assert fits_key_file("a!", "#")
    assert not fits_key_file("a b")
    assert not fits_key_file("")
    assert AGENT_NAME.fullmatch("a.b-c_D1")
    assert not AGENT_NAME.fullmatch("é1")
    assert GROUP_NAME.fullmatch("...")
    assert not GROUP_NAME.fullmatch("..")
    assert not GROUP_NAME.fullmatch("a b")
    assert group_hash("default") == "37a8eec1"
