"""Addresses that no response is for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.outputs.responses.allow_list import AllowList

ALLOWED = AllowList(["127.0.0.1", "10.0.0.0/8", "2001:db8::/32", "^office-", ".corp.example$"])


@pytest.mark.parametrize(
    "source",
    ["127.0.0.1", "10.1.2.3", "::ffff:10.1.2.3", "::FFFF:7f00:1", "2001:db8::1", "Office-7", "x.corp.example"],
)
def test_allowed(source: str) -> None:
    assert ALLOWED.holds(source)


@pytest.mark.parametrize("source", ["", "127.0.0.2", "11.0.0.1", "::1", "my-office", "corp.example.org", "10.0.0.300"])
def test_others(source: str) -> None:
    assert not ALLOWED.holds(source)


@given(st.text())
def test_any_text(source: str) -> None:
    assert AllowList([]).holds(source) is False
