"""Merged files that follow edits and assignments by themselves."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from secmon.agents.groups.folders import create_group, delete_group
from secmon.agents.groups.merged_files.format import latest, split
from secmon.agents.groups.merged_files.task import MergedFileTask
from secmon.agents.names import group_hash
from secmon.agents.registry import registry
from secmon.agents.registry.store import AgentStore
from secmon.agents.wakeups import WakeupListener
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.file_io import write_file
from secmon.common.paths import Paths
from secmon.config.main import load_main_config
from secmon.daemons.installation_files import create_installation_files
from tests.waiting import LIMIT_SECONDS, until

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")]


class Site:
    """A master's folder and registry, with a running task."""

    def __init__(self, root: Path) -> None:
        self.paths = Paths(root)
        create_installation_files(self.paths)
        self.store = AgentStore(self.paths.agents_db)
        self.merging = self.another(reload_seconds=3600)

    def another(self, *, reload_seconds: float, merging: bool = True) -> MergedFileTask:
        return MergedFileTask(
            self.paths, self.store, load_main_config(self.paths), clock=SystemClock(), counters=Counters(),
            reload_seconds=reload_seconds, merging=merging,
        )  # fmt: skip

    def enrol(self, name: str, *groups: str) -> int:
        with self.store.write() as connection:
            return registry.add(connection, registry.New(name=name, groups=groups), now=0).entry.id

    def files(self, folder: str) -> dict[str, bytes]:
        """What agents would get; nothing while there is no merged file."""
        with suppress(FileNotFoundError):
            return dict(latest(split((self.paths.root / folder / "merged.mg").read_bytes()).files))
        return {}

    async def shows(self, folder: str, name: str, content: bytes | None) -> None:
        await until(lambda: self.files(folder).get(name) == content, what=f"{folder}: {name}")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@asynccontextmanager
async def working(merging: MergedFileTask) -> AsyncIterator[None]:
    task = asyncio.create_task(merging.run())
    try:
        yield
    finally:
        assert not task.done() or task.result() is None
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_edits_are_applied_promptly(site: Site) -> None:
    async with working(site.merging):
        await until(lambda: "agent.conf" in site.files("etc/shared/default"))
        assert site.files("etc/shared/default")["ar.conf"].startswith(b"restart-ossec0")
        create_group(site.paths, "web")
        write_file(site.paths.shared / "web/list.txt", b"one")
        await site.shows("etc/shared/web", "list.txt", b"one")
        write_file(site.paths.shared / "web/list.txt", b"two")
        await site.shows("etc/shared/web", "list.txt", b"two")
        (site.paths.shared / "web/list.txt").unlink()
        await site.shows("etc/shared/web", "list.txt", None)
        delete_group(site.paths, "web")
        create_group(site.paths, "db")
        await until(lambda: "agent.conf" in site.files("etc/shared/db"))
        assert not (site.paths.shared / "web").exists()


async def test_assignments_are_followed(site: Site) -> None:
    create_group(site.paths, "web")
    combined = f"var/multigroups/{group_hash('default,web')}"
    async with working(site.merging):
        agent = site.enrol("one", "default", "web")
        await until(lambda: "agent.conf" in site.files(combined))
        assert site.files(combined)["agent.conf"].count(b"<!-- Source file: ") == 2
        write_file(site.paths.shared / "web/x", b"1")
        await site.shows(combined, "x", b"1")
        with site.store.write() as connection:
            registry.assign(connection, {agent: ["web"]})
        await until(lambda: not (site.paths.root / combined).exists())


async def test_without_notifications_the_periodic_scan_finds_changes(site: Site) -> None:
    merging = site.another(reload_seconds=0.05)
    async with working(merging):
        await until(lambda: "agent.conf" in site.files("etc/shared/default"))
        await merging._watch.stop()
        write_file(site.paths.shared / "default/x", b"1")
        await site.shows("etc/shared/default", "x", b"1")


async def test_nothing_is_built_while_files_are_written(site: Site) -> None:
    async with working(site.merging):
        await until(lambda: "agent.conf" in site.files("etc/shared/default"))
        async with site.merging.suspended():
            for name in "abcdef":
                write_file(site.paths.shared / "default" / name, b"1")
                await asyncio.sleep(0.05)
                assert name not in site.files("etc/shared/default")
        await site.shows("etc/shared/default", "f", b"1")
        assert set("abcdef") < set(site.files("etc/shared/default"))


async def test_received_merged_files_are_no_longer_built(site: Site) -> None:
    async with working(site.merging):
        await until(lambda: "agent.conf" in site.files("etc/shared/default"))
        site.merging.receive(["default"])
        write_file(site.paths.shared / "default/merged.mg", b"#default\n!1 x\n1")
        site.enrol("one", "default", "web")
        combined = f"var/multigroups/{group_hash('default,web')}"
        await site.shows(combined, "x", b"1")
        assert site.files("etc/shared/default") == {"x": b"1"}
        site.merging.receive([])
        await until(lambda: "agent.conf" in site.files("etc/shared/default"))


async def test_merging_disabled(site: Site) -> None:
    async with working(site.another(reload_seconds=0.01, merging=False)):
        await until(lambda: (site.paths.shared / "ar.conf").exists())
        await asyncio.sleep(0.1)
        assert not site.files("etc/shared/default")


async def test_a_group_edited_while_a_thousand_agents_connect(site: Site) -> None:
    """Readers see complete files only, and in the end the last edit."""
    create_group(site.paths, "web")
    ends, faults, reads = threading.Event(), [], [0]

    def connect(file: Path) -> None:
        while not ends.is_set():
            try:
                split(file.read_bytes())
                reads[0] += 1
            except ValueError as error:
                faults.append(str(error))

    async with working(site.merging):
        site.enrol("one", "default", "web")
        combined = f"var/multigroups/{group_hash('default,web')}"
        await until(lambda: site.files("etc/shared/web") and site.files(combined))
        folders = ("etc/shared/web", combined)
        threads = [threading.Thread(target=connect, args=(site.paths.root / each / "merged.mg",)) for each in folders]
        for thread in threads:
            thread.start()
        for turn in range(100):
            (site.paths.shared / "web/agent.conf").write_bytes(b"<agent_config/>" * (turn + 1))
            await asyncio.sleep(0)
        await until(lambda: reads[0] > 1000)
        await until(lambda: all(site.files(each)["agent.conf"].endswith(b"<agent_config/>" * 100) for each in folders))
        ends.set()
        for thread in threads:
            thread.join()
    assert not faults


async def test_the_agent_link_is_notified(site: Site) -> None:
    listener = WakeupListener(site.paths.merged_files_socket)
    await listener.wait(0.01)
    try:
        async with working(site.merging):
            async with asyncio.timeout(LIMIT_SECONDS):
                await listener.wait(3600)
            assert "agent.conf" in site.files("etc/shared/default")
            async with asyncio.timeout(LIMIT_SECONDS), site.merging.suspended():
                pass
            async with asyncio.timeout(LIMIT_SECONDS):
                await listener.wait(3600)
    finally:
        listener.close()
