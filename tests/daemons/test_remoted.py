"""secmon-remoted of a stand-alone node: from the port to the store, the journal and the local socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import select

from secmon.agents.link.client import LinkClient
from secmon.agents.registry.registry import New, add
from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.agents.wire.keys import AgentKey
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.config.main import AgentPorts
from secmon.daemons.daemon import Context
from secmon.daemons.install import install
from secmon.daemons.remoted import RemoteDaemon, build
from secmon.daemons.supervisor_settings import read_supervisor_settings
from secmon.journal.journal import JournalReader
from tests.agentlink.field import FieldAgent
from tests.integration.kit import free_port
from tests.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def paths(root: Path, port: int) -> Paths:
    paths = Paths(root / "n")
    install(paths, cluster=None, agent_ports=AgentPorts(connections=port))
    return paths


def context(paths: Paths) -> Context:
    return Context(name="secmon-remoted", paths=paths)


@asynccontextmanager
async def running(paths: Paths) -> AsyncIterator[RemoteDaemon]:
    daemon = build(context(paths))
    try:
        await daemon.start()
        yield daemon
    finally:
        await daemon.stop()


async def test_an_agent_from_its_key_to_its_state(paths: Paths, port: int) -> None:
    reader = JournalReader(paths.events, "test")
    async with running(paths) as daemon:
        store = AgentStore(paths.agents_db)
        with store.write() as connection:
            entry = add(connection, New(name="web-01"), now=1).entry
        await until(lambda: daemon.counters()["link"]["agents"] == 1)
        agent = await FieldAgent(AgentKey("001", "web-01", "any", entry.internal_key)).connect(port)
        await agent.start()
        await agent.beat()
        await agent.send(b"1:file:log")
        link = LinkClient(paths.agent_link_socket)
        asking = asyncio.create_task(link.request(1, "agent", b"getstate"))
        _, counter, text = (await agent.receive()).split(b" ", 2)
        await agent.send(b"#!-req " + counter + b' {"error":0}')
        assert (text, await asking) == (b"agent getstate", b'{"error":0}')
        await until(lambda: daemon.counters()["link"]["journal"]["events"] == 1)
        await until(lambda: daemon.server and daemon.server.agents.by_number[1].delivery.group)
        agent.close()
    with store.read() as connection:
        row = connection.execute(select(agents)).one()
    assert (row.connection_status, row.group, row.node_name) == ("active", "default", "manager")
    assert [event for block in reader.read() for event in block.events] == [b"1:[001] (web-01) any->file:log"]
    reader.close()
    store.close()


async def test_configuration_in_force(paths: Paths, port: int) -> None:
    async with running(paths) as daemon:
        config = daemon.active_config()
        assert config["remote"][0]["port"] == str(port)
        assert config["internal"]["remoted"]["sender_pool"] == 8
        assert "worker_pool" not in config["internal"]["remoted"]
        assert config["global"] == {"remoted": {"agents_disconnection_alert_time": 0, "agents_disconnection_time": 600}}
        assert daemon.counters()["name"] == "secmon-remoted"


async def test_it_starts_again_after_a_stop(paths: Paths) -> None:
    for _ in range(2):
        async with running(paths):
            pass


async def test_a_port_in_use_is_named(paths: Paths, port: int) -> None:
    async with running(paths):
        with pytest.raises(SecmonError) as caught:
            build(context(paths))
        assert caught.value.code == 2010
        assert f"port {port}: Address already in use" in str(caught.value)


def test_without_a_section_it_does_not_run(paths: Paths) -> None:
    assert "secmon-remoted" in [spec.name for spec in read_supervisor_settings(paths).daemons]
    text = paths.main_config.read_text()
    start, end = text.index("<remote>"), text.index("</remote>") + len("</remote>")
    paths.main_config.write_text(text[:start] + text[end:])
    assert "secmon-remoted" not in [spec.name for spec in read_supervisor_settings(paths).daemons]
