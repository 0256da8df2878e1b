"""Files of groups from a web server, as ``files.yml`` says."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from secmon.agents.groups.folders import create_group
from secmon.agents.groups.merged_files import downloads
from secmon.agents.groups.merged_files.downloads import GroupFileDownloads
from secmon.agents.groups.merged_files.format import MergedFile, merge
from secmon.agents.registry import registry
from secmon.common.counters import Counters
from secmon.common.file_io import write_file
from tests.agents.groups.merged_files.test_task import Site
from tests.common.webserver import WebServer, answer, web_server
from tests.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")]


class RemoteSite(Site):
    """A master with ``files.yml``, looked at all the time."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.counters = Counters()
        self.remote = GroupFileDownloads(
            self.paths, self.store, self.merging, counters=self.counters, poll_seconds=0.02, download_seconds=5
        )

    def write(self, text: str) -> None:
        write_file(self.paths.shared / "files.yml", text.encode())

    def content(self, path: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return (self.paths.shared / path).read_bytes()
        return None

    def groups_of(self, agent: int) -> str | None:
        with self.store.read() as connection:
            entry = registry.find(connection, agent)
            return entry.group if entry else None

    def failed(self) -> float:
        return self.counters.snapshot().get("downloads.failed", 0)


@pytest.fixture
def site(tmp_path: Path) -> RemoteSite:
    return RemoteSite(tmp_path)


@asynccontextmanager
async def working(site: RemoteSite) -> AsyncIterator[None]:
    await site.remote.prepare()
    tasks = [asyncio.create_task(site.merging.run()), asyncio.create_task(site.remote.run())]
    try:
        yield
    finally:
        for task in tasks:
            assert not task.done() or task.result() is None
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def files_yml(server: WebServer, group: str, *names: str, poll: int = 0) -> str:
    lines = [f"      {name}: {server.url(f'/{group}/{name}')}" for name in names]
    return "\n".join(["groups:", f"  {group}:", f"    poll: {poll}", "    files:", *lines, ""])


async def test_files_are_downloaded_periodically(site: RemoteSite) -> None:
    pages = {"/web/agent.conf": answer(b"<agent_config/>"), "/web/list.txt": answer(b"one")}
    async with web_server(pages) as server:
        site.write(files_yml(server, "web", "agent.conf", "list.txt", "absent"))
        async with working(site):
            await site.shows("etc/shared/web", "list.txt", b"one")
            assert site.files("etc/shared/web")["agent.conf"] == b"<agent_config/>"
            assert site.failed() >= 1
            server.pages["/web/list.txt"] = answer(b"two")
            await site.shows("etc/shared/web", "list.txt", b"two")
            server.pages["/web/list.txt"] = answer(b"", status="500 Oh")
            failed = site.failed()
            await until(lambda: site.failed() > failed + 4)
            assert site.content("web/list.txt") == b"two"


async def test_a_server_does_not_choose_how_much_is_in_memory(
    site: RemoteSite, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(downloads, "MAX_GROUP", 2500)
    async with web_server({f"/web/{name}": answer(b"x" * 1000) for name in ("a", "b", "c")}) as server:
        site.write(files_yml(server, "web", "a", "b", "c"))
        async with working(site):
            await until(lambda: site.failed() >= 1)
            await site.shows("etc/shared/web", "b", b"x" * 1000)
            assert site.content("web/c") is None
    assert "1000 bytes, more than 500" in caplog.text


async def test_a_server_that_changes_the_protocol_fails_only_its_file(site: RemoteSite) -> None:
    upgrade = b"HTTP/1.1 101 Now\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
    async with web_server({"/web/a": upgrade, "/web/b": answer(b"good")}) as server:
        site.write(files_yml(server, "web", "a", "b"))
        async with working(site):
            await site.shows("etc/shared/web", "b", b"good")
    assert site.failed() >= 1


async def test_poll_is_the_interval_of_downloads(site: RemoteSite) -> None:
    async with web_server({"/web/x": answer(b"1")}) as server:
        site.write(files_yml(server, "web", "x", poll=3600))
        async with working(site):
            await until(lambda: site.content("web/x") == b"1")
            await asyncio.sleep(0.2)
            assert server.asked == ["/web/x"]
            site.write(files_yml(server, "web", "x", poll=3601))
            await until(lambda: len(server.asked) == 2)


async def test_a_merged_file_is_imported_unchanged(site: RemoteSite, caplog: pytest.LogCaptureFixture) -> None:
    good = merge("web", [MergedFile("only.txt", b"1")])
    create_group(site.paths, "web")
    write_file(site.paths.shared / "web/local.txt", b"not shared any more")
    async with web_server({"/web/merged.mg": answer(good)}) as server:
        site.write(files_yml(server, "web", "merged.mg", "other.txt"))
        async with working(site):
            await until(lambda: site.content("web/merged.mg") == good)
            assert "/web/other.txt" not in server.asked
            server.pages["/web/merged.mg"] = answer(good + b"!5 x\nab")
            await until(lambda: site.failed() > 2)
            assert site.content("web/merged.mg") == good
            assert "5 bytes announced, 2 present" in caplog.text
            site.write("")
            await site.shows("etc/shared/web", "local.txt", b"not shared any more")


async def test_a_wrong_agent_conf_does_not_reach_agents(site: RemoteSite, caplog: pytest.LogCaptureFixture) -> None:
    async with web_server({"/web/agent.conf": answer(b"<agent_config><syschek/></agent_config>")}) as server:
        site.write(files_yml(server, "web", "agent.conf"))
        async with working(site):
            await until(lambda: site.failed() > 1)
            assert b"syschek" not in (site.content("web/agent.conf") or b"")
            assert "syschek: there is no such name" in caplog.text


async def test_an_invalid_file_leaves_the_last_valid_one_in_force(
    site: RemoteSite, caplog: pytest.LogCaptureFixture
) -> None:
    async with web_server({"/web/x": answer(b"1")}) as server:
        site.write(files_yml(server, "web", "x"))
        async with working(site):
            await until(lambda: site.content("web/x") == b"1")
            site.write("groups: {web: {files: {x: nowhere}}}")
            await until(lambda: site.counters.snapshot().get("files_yml.rejected"))
            server.pages["/web/x"] = answer(b"2")
            await until(lambda: site.content("web/x") == b"2")
            assert site.counters.snapshot()["files_yml.rejected"] == 1
            assert len([one for one in caplog.records if one.levelno == logging.ERROR]) == 1
            (site.paths.shared / "files.yml").unlink()
            asked = len(server.asked) + 5
            await asyncio.sleep(0.3)
            assert len(server.asked) < asked


async def test_a_hanging_server_delays_only_its_own_group(site: RemoteSite) -> None:
    async with web_server({"/slow/x": b"HTTP/1.1 200 OK\r\n\r\n", "/web/x": answer(b"1")}) as server:
        server.slow.add("/slow/x")
        slow, web = files_yml(server, "slow", "x"), files_yml(server, "web", "x")
        site.write(slow + web.removeprefix("groups:\n"))
        async with working(site):
            await until(lambda: site.content("web/x") == b"1")
            assert site.content("slow/x") is None


async def test_agents_are_assigned_to_their_groups(site: RemoteSite, caplog: pytest.LogCaptureFixture) -> None:
    create_group(site.paths, "web")
    one, two = site.enrol("one", "default"), site.enrol("two", "default", "web")
    site.write("agents: {001: web, 002: web, 003: web, 004: later}")
    with caplog.at_level(logging.WARNING):
        async with working(site):
            await until(lambda: site.groups_of(one) == "web")
            assert site.groups_of(two) == "default,web"
            three = site.enrol("three")
            await until(lambda: site.groups_of(three) == "web")
            four = site.enrol("four", "default")
            with site.store.write() as connection:
                registry.assign(connection, {one: ["default"]})
            create_group(site.paths, "later")
            await until(lambda: site.groups_of(four) == "later")
            assert site.groups_of(one) == "default"
            site.write("agents: {1: web}")
            await until(lambda: site.groups_of(one) == "web")
    assert len(caplog.records) == 1
