"""The schedules of lists, as ``feeds.yml`` has them."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from secmon.knowledge.lists.feed_task import FeedSchedule
from tests.common.webserver import WebServer, answer, web_server
from tests.knowledge.lists.sites import ListSite
from tests.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
def site(tmp_path: Path) -> ListSite:
    return ListSite(tmp_path)


@asynccontextmanager
async def working(site: ListSite) -> AsyncIterator[None]:
    feeds = FeedSchedule(site.paths, site.renewal, site.counters, poll_seconds=0.02)
    task = asyncio.create_task(feeds.run())
    try:
        yield
    finally:
        assert not task.done() or task.result() is None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def feeds_yml(server: WebServer, *names: str, every: str = "1h") -> str:
    lines = [f"  {name}: {{url: '{server.url(f'/{name}')}', every: {every}}}\n" for name in names]
    return "feeds:\n" + "".join(lines)


async def test_lists_are_renewed_when_they_are_due(site: ListSite, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "secmon")
    async with web_server({"/a": answer(b"one\n"), "/b": answer(b"two\n")}) as server, working(site):
        site.declare(feeds_yml(server, "a", "b"))
        await until(lambda: (site.text("a"), site.text("b")) == ("one:\n", "two:\n"))
        await until(lambda: site.counted("lists.renewed") == 2)
        server.pages["/a"] = answer(b"", status="500 Oh")
        site.clock.advance(3600)
        await until(lambda: site.counted("lists.failed") == 1)
        site.clock.advance(900)
        await until(lambda: site.counted("lists.failed") == 2)
        assert site.text("a") == "one:\n"
        server.pages["/a"] = answer(b"three\n")
        site.clock.advance(900)
        await until(lambda: site.text("a") == "three:\n")
        await until(lambda: "is renewed again" in caplog.text)
    texts = [record.getMessage() for record in caplog.records if record.name == "secmon.modulesd.lists"]
    assert len([text for text in texts if "fails: the server answers with status 500" in text]) == 1
    assert len([text for text in texts if "The list a is renewed again" in text]) == 1


async def test_a_restart_downloads_nothing_that_is_not_due(site: ListSite) -> None:
    async with web_server({"/a": answer(b"one\n")}) as server:
        site.declare(feeds_yml(server, "a"))
        async with working(site):
            await until(lambda: site.counted("lists.renewed") == 1)
        async with working(site):
            site.declare(feeds_yml(server, "a", "b"))
            await until(lambda: site.counted("lists.failed") == 1)
        assert server.asked == ["/a", "/b"]


async def test_a_state_that_cannot_be_stored_is_logged_once(
    site: ListSite, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "secmon")
    monkeypatch.setattr("secmon.knowledge.lists.feed_task._STORE_SECONDS", 0.01)
    site.paths.list_feeds.touch()  # in the place of the folder
    async with web_server({"/a": answer(b"one\n")}) as server, working(site):
        site.declare(feeds_yml(server, "a"))
        await until(lambda: len(server.asked) > 2)
        site.paths.list_feeds.unlink()
        await until(lambda: "States of feeds are stored again" in caplog.text)
    assert caplog.text.count("States of feeds are not stored") == 1
    assert site.text("a") == "one:\n"


async def test_an_invalid_file_leaves_the_last_valid_one(site: ListSite, caplog: pytest.LogCaptureFixture) -> None:
    async with web_server({"/a": answer(b"one\n")}) as server, working(site):
        site.declare(feeds_yml(server, "a", every="2h"))
        await until(lambda: site.counted("lists.renewed") == 1)
        site.declare("feeds: {a: {url: nowhere}}")
        await until(lambda: site.counted("feeds_yml.rejected") == 1)
        site.clock.advance(7200)
        await until(lambda: len(server.asked) == 2)
    assert "feeds.yml is invalid; its last valid version remains in force" in caplog.text


async def test_a_feed_that_is_gone_leaves_its_list(site: ListSite) -> None:
    async with web_server({"/a": answer(b"one\n")}) as server:
        site.declare(feeds_yml(server, "a"))
        async with working(site):
            await until(lambda: "a" in site.renewal.states.all())
            site.declare("")
            await until(lambda: not site.renewal.states.all())
    assert site.text("a") == "one:\n"
