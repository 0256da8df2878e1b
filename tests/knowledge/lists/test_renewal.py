"""Renewals from real servers, good and bad."""

import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from secmon.common.clock import iso_z
from tests.common.webserver import answer, web_server
from tests.knowledge.lists.sites import NOW, ListSite

pytestmark = pytest.mark.anyio

DAY = 86400


@pytest.fixture
def site(tmp_path: Path) -> ListSite:
    return ListSite(tmp_path)


async def test_a_list_is_written_and_its_state_shown(site: ListSite) -> None:
    async with web_server(
        {"/f?key=secret": answer(gzip.compress(b"192.0.2.2\n2001:db8::/32\n192.0.2.1\nx\n"))}
    ) as server:
        state = await site.renew(server.url("/f?key=secret"), "kind: address, value: bot, headers: {Auth-Key: k}")
        assert server.heads[0]["auth-key"] == "k"
    assert site.text() == '192.0.2.1:bot\n192.0.2.2:bot\n"2001:db8::/32":"bot"\n'
    assert site.text("bad.expiry") is None
    assert (site.paths.lists / "bad").stat().st_mode & 0o777 == 0o660
    moment = iso_z(site.clock.now())
    assert state.shown() == {
        "status": "current",
        "url": server.url("/f"),
        "renewed_at": moment,
        "changed_at": moment,
        "checked_at": moment,
        "next_at": iso_z(state.next_at),
        "entries": 3,
        "left_out": 1,
    }
    assert site.renewal.states.all() == {"bad": state}
    assert (site.counted("lists.renewed"), site.counted("lists.left_out")) == (1, 1)
    assert os.listdir(site.paths.downloads) == []


async def test_a_feed_that_has_not_changed(site: ListSite) -> None:
    async with web_server({"/f": answer(b"a\n", 'ETag: "1"')}) as server:
        url = server.url("/f")
        first = await site.renew(url)
        server.pages["/f"] = answer(b"", status="304 Not Modified")
        site.clock.advance(60)
        second = await site.renew(url)
        assert server.heads[-1]["if-none-match"] == '"1"'
        assert (second.changed_at, second.renewed_at) == (first.changed_at, site.clock.now())
        assert second.entries == 1
        (site.paths.lists / "bad").write_text("changed:by hand\n")
        server.pages["/f"] = answer(b"a\n", 'ETag: "1"')
        third = await site.renew(url)
        assert "if-none-match" not in server.heads[-1]
        assert (site.text(), third.changed_at) == ("a:\n", site.clock.now())
    assert (site.counted("lists.renewed"), site.counted("lists.unchanged")) == (2, 1)


@pytest.mark.parametrize(
    ("page", "options", "reason"),
    [
        (answer(b"", status="503 Down"), "", "status 503"),
        (answer(b"<html>\nSorry\n"), "kind: domain", "no entries of the kind domain"),
        (answer(b"a\n" * 1000), "max_bytes: 100", "more than 100"),
        (answer(gzip.compress(b"a\n" * 100_000, mtime=0)), "max_bytes: 1K", "unpacks to more than 1024"),
        (answer(gzip.compress(b"a\n" * 100, mtime=0)[:-5]), "", "not a whole gzip file"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\na\n", "", "closed before the end"),
        (answer(b"", "Location: ftp://x/", status="302 Found"), "", "http://"),
    ],
)
async def test_a_feed_that_fails_leaves_the_last_good_list(
    site: ListSite, page: bytes, options: str, reason: str
) -> None:
    async with web_server({"/f": answer(b"good\n", 'ETag: "1"')}) as server:
        good = await site.renew(server.url("/f"))
        server.pages["/f"] = page
        site.clock.advance(60)
        failed = await site.renew(server.url("/f"), options)
        assert site.text() == "good:\n"
        assert (failed.failed_since, failed.shown()["status"]) == (site.clock.now(), "failing")
        assert (failed.renewed_at, failed.entries) == (good.renewed_at, 1)
        assert reason in failed.error
        site.clock.advance(60)
        again = await site.renew(server.url("/f"), options)
        assert again.failed_since == failed.failed_since
        assert (again.next_at - again.checked_at).seconds == 900
        assert site.counted("lists.failed") == 2
        server.pages["/f"] = answer(b"good.example\n")
        works = await site.renew(server.url("/f"))
        assert (works.error, works.failed_since, site.text()) == ("", None, "good.example:\n")


async def test_a_server_that_never_ends(site: ListSite) -> None:
    site.renewal._seconds = 0.2
    async with web_server({"/f": b"HTTP/1.1 200 OK\r\n\r\na\n"}) as server:
        server.slow.add("/f")
        assert "not finished within" in (await site.renew(server.url("/f"))).error
    assert site.text() is None


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
async def test_a_list_that_cannot_be_read(site: ListSite, make: Callable[[Path], None]) -> None:
    make(site.paths.lists / "bad")
    async with web_server({"/f": answer(b"a\n")}) as server:
        assert "not a regular file" in (await site.renew(server.url("/f"))).error
        assert server.asked == []


async def test_checksums(site: ListSite) -> None:
    digest = hashlib.sha256(b"a\n").hexdigest()
    pages = {"/d/f": answer(b"a\n"), "/sums": answer(f"{'0' * 64}  other\n{digest.upper()} *f\n".encode())}
    async with web_server(pages) as server:
        options = f"sha256_url: '{server.url('/sums')}'"
        assert (await site.renew(server.url("/d/f"), options)).error == ""
        server.pages["/d/f"] = answer(b"b\n")
        assert f"not {digest}" in (await site.renew(server.url("/d/f"), options)).error
        assert site.text() == "a:\n"
        server.pages["/sums"] = answer(hashlib.sha256(b"b\n").hexdigest().encode())
        assert (await site.renew(server.url("/d/f"), options)).error == ""
        server.pages["/sums"] = answer(b"none")
        assert "no SHA-256" in (await site.renew(server.url("/d/f"), options)).error


async def test_entries_with_dates(site: ListSite) -> None:
    options = "format: csv, key_field: '1', expiry_field: '2'"
    rows = f"a,{NOW + 100}\nb,\nc,{NOW - 1}\n"
    async with web_server({"/f": answer(rows.encode(), 'ETag: "1"')}) as server:
        state = await site.renew(server.url("/f"), options)
        assert (site.text(), state.entries) == ("a:\nb:\n", 2)
        assert site.text("bad.expiry") == '"a":"2026-09-21T14:15:00Z"\n'
        server.pages["/f"] = answer(b"", status="304 Not Modified")
        site.clock.advance(100)
        state = await site.renew(server.url("/f"), options)
        assert (site.text(), site.text("bad.expiry"), state.entries) == ("b:\n", None, 1)


async def test_entries_that_the_feed_no_longer_names_are_kept_for_a_time(site: ListSite) -> None:
    options = "keep: 2d, max_entries: '3'"
    async with web_server({"/f": answer(b"a\nb\n")}) as server:
        await site.renew(server.url("/f"), options)
        server.pages["/f"] = answer(b"b\n")
        await site.renew(server.url("/f"), options)
        assert (site.text(), site.text("bad.expiry")) == ("a:\nb:\n", '"a":"2026-09-23T14:13:20Z"\n')
        site.clock.advance(DAY)
        await site.renew(server.url("/f"), options)
        assert site.text("bad.expiry") == '"a":"2026-09-23T14:13:20Z"\n'
        server.pages["/f"] = answer(b"c\nd\n")
        await site.renew(server.url("/f"), options)
        assert site.text() == "b:\nc:\nd:\n"  # the one that was named last has the place
        server.pages["/f"] = answer(b"b\nc\n")
        await site.renew(server.url("/f"), options)
        assert (site.text(), site.text("bad.expiry")) == ("b:\nc:\nd:\n", '"d":"2026-09-24T14:13:20Z"\n')
        site.clock.advance(2 * DAY)
        await site.renew(server.url("/f"), options)
        assert (site.text(), site.text("bad.expiry")) == ("b:\nc:\n", None)


async def test_when_a_feed_is_due(site: ListSite) -> None:
    async with web_server({"/f": answer(b"a\n")}) as server:
        state = await site.renew(server.url("/f"), "every: 1h")
    feed = state.feed
    assert not site.renewal.is_due(feed)
    site.clock.advance(3599)
    assert not site.renewal.is_due(feed)
    site.clock.advance(1)
    assert site.renewal.is_due(feed)
    await site.renewal.renew(feed)  # fails: the server is gone
    site.clock.advance(899)
    assert not site.renewal.is_due(feed)
    site.clock.advance(1)
    assert site.renewal.is_due(feed)


async def test_a_damaged_state_is_as_none(site: ListSite) -> None:
    async with web_server({"/f": answer(b"a\n")}) as server:
        state = await site.renew(server.url("/f"))
        (site.paths.list_feeds / "bad.json").write_bytes(b"{")
        assert site.renewal.is_due(state.feed)
        assert (await site.renew(server.url("/f"))).entries == 1
