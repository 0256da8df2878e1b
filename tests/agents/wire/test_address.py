"""Addresses of agents."""

import pytest

from secmon.agents.wire.address import bare, covers, network, source_text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::17", "2001:0DB8:0000:0000:0000:0000:0000:0017"),
        ("fe80::1%eth0", "FE80:0000:0000:0000:0000:0000:0000:0001"),
    ],
)
def test_source_text(given: str, text: str) -> None:
    assert source_text(given) == text


def test_bare() -> None:
    assert [bare(text) for text in ("any", "10.20.0.0/16", "2001:db8::/32")] == [
        "any",
        "10.20.0.0",
        "2001:0DB8:0000:0000:0000:0000:0000:0000",
    ]


@pytest.mark.parametrize(
    ("registered", "source", "inside"),
    [
        ("any", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("10.20.0.0/16", "10.20.255.1", True),
        ("10.20.0.0/255.255.0.0", "10.21.0.1", False),
        ("2001:db8::/32", "2001:0DB8:0000:0000:0000:0000:0000:0017", True),
        ("2001:db8::/32", "192.0.2.1", False),
    ],
)
def test_covers(registered: str, source: str, inside: bool) -> None:
    assert covers(network(registered), source) is inside
