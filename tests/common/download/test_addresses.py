"""Addresses: which are refused, and how far inside the network they are."""

import pytest

from secmon.common.download import DownloadError, check_url, without_query
from secmon.common.download.addresses import ANYWHERE, reach_of, resolve


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("8.8.8.8", 0), ("2606:4700::1111", 0), ("10.1.2.3", 1), ("192.168.1.1", 1), ("fd00::1", 1), ("127.0.0.1", 2),
        ("::1", 2), ("169.254.169.254", 2), ("fe80::1%eth0", 2), ("::ffff:127.0.0.1", 2), ("::ffff:10.0.0.1", 1),
        ("0.0.0.0", 2), ("::", 2), ("64:ff9b::a9fe:a9fe", 2), ("64:ff9b::808:808", 0), ("2002:7f00:1::", 2),
    ],
)  # fmt: skip
def test_how_far_inside_an_address_is(address: str, reach: int) -> None:
    assert reach_of(address) == reach


@pytest.mark.parametrize(
    "url",
    [
        "", "file:///etc/passwd", "ftp://a/b", "http://", "//a/b", "http://a b", "http://u:p@a", "http://a:x/",
        "http://a/\n", "http://a/\u00e9",
    ],
)  # fmt: skip
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(DownloadError):
        check_url(url)


def test_the_query_is_not_shown() -> None:
    assert without_query("https://a/b?key=secret") == "https://a/b"
    with pytest.raises(DownloadError) as refused:
        check_url("ftp://a/b?key=secret")
    assert "secret" not in str(refused.value)


@pytest.mark.anyio
async def test_names_are_resolved_to_addresses_that_are_allowed() -> None:
    assert await resolve(check_url("http://localhost:1/"), ANYWHERE)
    with pytest.raises(DownloadError, match="redirects to localhost"):
        await resolve(check_url("http://localhost:1/"), 1)
