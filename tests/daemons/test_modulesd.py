"""secmon-modulesd: what a master does by itself, with its real folders and stores."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import select, update

from secmon.agents import silent_agents
from secmon.agents.groups.folders import create_group
from secmon.agents.names import group_hash
from secmon.agents.registry import registry
from secmon.agents.registry.key_file import times_file
from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.config.cluster import ClusterSection
from secmon.config.main import AgentPorts
from secmon.daemons import remoted
from secmon.daemons.daemon import Context
from secmon.daemons.install import install
from secmon.daemons.modulesd import KeyFileTask, ModulesDaemon, build
from secmon.daemons.node_builder import open_node, read_installation
from secmon.daemons.supervisor_settings import read_supervisor_settings
from secmon.journal.journal import JournalReader
from tests.common.webserver import answer, web_server
from tests.integration.kit import free_port
from tests.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")]


@pytest.fixture
def paths(root: Path) -> Paths:
    paths = Paths(root / "n")
    install(paths, cluster=None, agent_ports=AgentPorts(connections=free_port()))
    return paths


@asynccontextmanager
async def running(paths: Paths) -> AsyncIterator[ModulesDaemon]:
    daemon = build(Context(name="secmon-modulesd", paths=paths))
    try:
        await daemon.start()
        yield daemon
    finally:
        await daemon.stop()


def enrol(store: AgentStore, name: str, *groups: str) -> int:
    with store.write() as connection:
        return registry.add(connection, registry.New(name=name, groups=groups), now=0).entry.id


async def test_groups_are_built(paths: Paths) -> None:
    store = AgentStore(paths.agents_db)
    async with running(paths) as daemon:
        create_group(paths, "web")
        enrol(store, "one", "default", "web")
        merged = paths.multigroups / group_hash("default,web") / "merged.mg"
        await until(lambda: merged.exists() and b"Source file: web/agent.conf" in merged.read_bytes())
        await until(lambda: daemon.counters().get("groups.present") == 2)
        assert (paths.shared / "ar.conf").read_text().startswith("restart-ossec0 - ")
    store.close()


async def test_lists_are_renewed_from_their_feeds(paths: Paths) -> None:
    async with web_server({"/bad": answer(b"192.0.2.1\n")}) as server:
        (paths.lists / "feeds.yml").write_text(f"feeds: {{bad: {{url: '{server.url('/bad')}', kind: address}}}}")
        async with running(paths) as daemon:
            await until(lambda: daemon.counters().get("lists.renewed") == 1)
            assert daemon.counters()["lists.feeds"] == 1
    assert (paths.lists / "bad").read_bytes() == b"192.0.2.1:\n"


async def test_the_key_file_follows_the_registry_and_the_other_way_round(paths: Paths) -> None:
    store = AgentStore(paths.agents_db)
    enrol(store, "one")
    async with running(paths):
        await until(lambda: times_file(paths).exists())  # written after the keys
        assert paths.client_keys.read_text().startswith("001 one any ")
        with paths.client_keys.open("a") as file:
            file.write(f"002 two any {'a' * 64}\n")

        def taken() -> bool:
            with store.read() as connection:
                return registry.find(connection, 2) is not None

        await until(taken)
    store.close()


async def test_files_come_from_elsewhere(paths: Paths) -> None:
    async with web_server({"/x": answer(b"1")}) as server:
        (paths.shared / "files.yml").write_text(f"groups: {{web: {{files: {{x: '{server.url('/x')}'}}}}}}")
        async with running(paths) as daemon:
            merged = paths.shared / "web/merged.mg"
            await until(lambda: merged.exists() and b"!1 x\n1" in merged.read_bytes())
            await until(lambda: daemon.counters().get("downloads.succeeded") == 1)


async def test_newer_versions_are_asked_for_where_it_is_configured(paths: Paths) -> None:
    async with web_server({"/r": answer(b'{"releases": []}')}) as server:
        async with running(paths) as daemon:
            assert "newer versions" not in daemon.tasks.restarts
        address = f"<update_check_url>{server.url('/r')}</update_check_url>"
        with paths.main_config.open("a") as file:
            file.write(f"<ossec_config><global><update_check>yes</update_check>{address}</global></ossec_config>")
        async with running(paths) as daemon:
            await until(lambda: daemon.counters().get("updates.asked") == 1)
        async with running(paths) as daemon:  # the answer is young
            await until(lambda: daemon.counters().get("groups.present"))
        assert server.asked == ["/r"]
    assert paths.newer_versions.exists()


async def test_silence_is_reported_to_the_engine(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silent_agents, "FIRST_REPORTS_SECONDS", 0.0)
    store = AgentStore(paths.agents_db)
    agent = enrol(store, "one")
    now = int(SystemClock().now().timestamp())
    reader = JournalReader(paths.events, "test")
    link = remoted.build(Context(name="secmon-remoted", paths=paths))
    await link.start()
    values = {"connection_status": "active", "last_keepalive": now - 601, "node_name": "elsewhere"}
    with store.write() as connection:
        connection.execute(update(agents).where(agents.c.id == agent).values(values))
    try:
        async with running(paths) as daemon:
            await until(lambda: daemon.counters().get("agents.lost") == 1)
            found = await until(lambda: [event for block in reader.read() for event in block.events])
    finally:
        await link.stop()
        reader.close()
    assert found == [b"1:[001] (one) any->secmon-monitord:ossec: Agent disconnected: 'one-any'."]
    with store.read() as connection:
        assert connection.execute(select(agents.c.status_code)).scalar_one() == 4
    store.close()


async def test_a_worker_builds_nothing_for_agents(root: Path) -> None:
    paths = Paths(root / "w")
    cluster = ClusterSection(
        name="eu", node_name="w", node_type="worker", key="k" * 32, nodes=["127.0.0.1"], bind_addr="127.0.0.1"
    )
    install(paths, cluster=cluster, agent_ports=AgentPorts(connections=free_port()))
    async with running(paths) as daemon:
        ending = asyncio.ensure_future(daemon.finished())
        await until(lambda: (paths.shared / "ar.conf").exists())  # which responses it may send to its own agents
        assert not list(paths.multigroups.glob("*"))
        assert not list(paths.shared.glob("*/merged.mg"))
        assert not ending.done()
    await ending


async def test_a_key_file_that_cannot_be_written_is_logged_once(paths: Paths, caplog: pytest.LogCaptureFixture) -> None:
    node = open_node(read_installation(paths))
    paths.client_keys.unlink(missing_ok=True)
    paths.client_keys.mkdir()
    enrol(node.agents, "one")
    task = KeyFileTask(node)
    with caplog.at_level(logging.ERROR):
        for _ in range(4):
            await task.poll()
    assert len(caplog.records) == 1
    paths.client_keys.rmdir()
    for _ in range(2):
        await task.poll()
    assert paths.client_keys.read_text().startswith("001 one any ")
    node.agents.close()
    node.security.close()


def test_it_is_part_of_every_node(paths: Paths) -> None:
    assert "secmon-modulesd" in [spec.name for spec in read_supervisor_settings(paths).daemons]
