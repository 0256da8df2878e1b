"""From a refused agent to its key: the real link, the real module, a program and a socket."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import update

from secmon.agents.registry.entries import entries
from secmon.agents.registry.registry import New, add
from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.agents.wire.keys import AgentKey
from secmon.common.background import Background
from secmon.common.paths import Paths
from secmon.config.main import AgentPorts
from secmon.config.remote import load_remote
from secmon.daemons import remoted
from secmon.daemons.daemon import Context
from secmon.daemons.install import install
from secmon.daemons.key_requests import key_request_modules
from secmon.daemons.master_client import MasterClient
from secmon.daemons.modulesd import ModulesDaemon, build
from secmon.daemons.node_builder import open_node, read_installation
from secmon.daemons.remoted import RemoteDaemon
from tests.agentlink.field import FieldAgent
from tests.integration.kit import free_port
from tests.waiting import until

pytestmark = pytest.mark.anyio

KEY = "0a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcdef"
AGENT = AgentKey("007", "web-07", "any", KEY)
BY_ADDRESS = AgentKey("008", "web-08", "127.0.0.1", KEY[::-1])
PROGRAM = """#!{python}
import json, sys
known = {{("id", "007"): {first}, ("ip", "127.0.0.1"): {second}}}
found = known.get((sys.argv[-2], sys.argv[-1]))
print(json.dumps({{"error": 0, "data": found}} if found else {{"error": 1, "message": "no such agent"}}))
"""


def data(key: AgentKey) -> dict[str, str]:
    return {"id": key.id, "name": key.name, "ip": key.address, "key": key.key}


@pytest.fixture
def paths(root: Path) -> Paths:
    paths = Paths(root / "n")
    install(paths, cluster=None, agent_ports=AgentPorts(connections=free_port()))
    return paths


def configure(paths: Paths, section: str) -> None:
    text = paths.main_config.read_text()
    assert "</auth>" in text
    paths.main_config.write_text(text.replace("</auth>", f"<key_request>{section}</key_request></auth>", 1))


def write_program(paths: Paths) -> None:
    path = paths.root / "keys"
    path.write_text(PROGRAM.format(python=sys.executable, first=data(AGENT), second=data(BY_ADDRESS)))
    path.chmod(0o700)
    configure(paths, "<exec_path>keys --quiet</exec_path><timeout>30</timeout>")


@asynccontextmanager
async def running(paths: Paths) -> AsyncIterator[tuple[ModulesDaemon, RemoteDaemon]]:
    link = remoted.build(Context(name="secmon-remoted", paths=paths))
    await link.start()
    daemon = build(Context(name="secmon-modulesd", paths=paths))
    try:
        await daemon.start()
        assert link.server is not None
        keys = link.server.local.keys
        await until(lambda: len(keys) == 1)
        yield daemon, link
    finally:
        await daemon.stop()
        await link.stop()


async def refused(paths: Paths, key: AgentKey, *, prefix: bool = True) -> None:
    """An agent's first message, and the end of its connection."""
    agent = await FieldAgent(key, prefix=prefix).connect(load_remote(paths)[0].port)
    await agent.send(b"#!-agent startup ")
    assert await agent.closed_by_server()
    agent.close()


async def welcome(paths: Paths, link: RemoteDaemon, key: AgentKey, *, prefix: bool = True) -> None:
    """The agent comes again as soon as the link knows its key."""
    server = link.server
    assert server is not None
    await until(lambda: any(one.identity.key == key for one in server.agents.by_number.values()))
    agent = await FieldAgent(key, prefix=prefix).connect(load_remote(paths)[0].port)
    await agent.start()
    await agent.beat()
    agent.close()


async def test_an_unknown_agent_is_refused_registered_and_comes_in(
    paths: Paths, caplog: pytest.LogCaptureFixture
) -> None:
    write_program(paths)
    with caplog.at_level(logging.DEBUG):
        async with running(paths) as (daemon, link):
            await refused(paths, AGENT)
            await welcome(paths, link, AGENT)
            await refused(paths, BY_ADDRESS, prefix=False)
            await welcome(paths, link, BY_ADDRESS, prefix=False)
            await refused(paths, AgentKey("009", "web-09", "any", KEY))
            await until(lambda: daemon.counters()["key_requests.refused"] == 1)
            counters = daemon.counters()
            handed = link.counters()["link"]["key_requests"]
    assert (counters["key_requests.asked"], counters["key_requests.answered"]) == (3, 2)
    assert handed == {"handed": 3, "dropped": 0}
    assert caplog.text.count("The key request id:009 yields no key: error 1: no such agent") == 1
    assert KEY not in caplog.text
    assert KEY[::-1] not in caplog.text


async def test_a_wrong_key_is_replaced_under_the_rules_of_enrolment(paths: Paths) -> None:
    write_program(paths)
    store = AgentStore(paths.agents_db)
    with store.write() as connection:
        add(connection, New(name=AGENT.name, id=7, key="f" * 64), now=1)
    async with running(paths) as (daemon, link):
        with store.write() as connection:
            values = {"connection_status": "disconnected", "disconnection_time": 1, "last_keepalive": 1}
            connection.execute(update(agents).where(agents.c.id == 7).values(values))
        await refused(paths, AGENT)
        await welcome(paths, link, AGENT)
        assert link.server is not None
        link.server.missing_keys._recent.clear()  # some seconds later
        await refused(paths, AgentKey(AGENT.id, AGENT.name, AGENT.address, "e" * 64))
        await until(lambda: daemon.counters()["key_requests.refused"] == 1)
    with store.read() as connection:
        assert [one.line for one in entries(connection)] == [f"007 web-07 any {KEY}"]
    store.close()


async def test_a_socket_is_asked(paths: Paths) -> None:
    asked = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(100))
        writer.write(json.dumps({"error": 0, "data": data(AGENT)}).encode())
        writer.close()

    server = await asyncio.start_unix_server(serve, str(paths.root / "keys"))
    configure(paths, "<socket>keys</socket>")
    async with running(paths) as (_, link):
        await refused(paths, AGENT)
        await welcome(paths, link, AGENT)
    server.close()
    assert asked == [b"id:007"]


@pytest.mark.parametrize(
    ("section", "found", "said"),
    [
        (None, False, ""),
        ("<enabled>no</enabled><exec_path>keys</exec_path>", False, ""),
        ("<timeout>5</timeout>", False, "has neither exec_path nor socket"),
        ("<exec_path>keys 'x</exec_path>", False, "cannot be read: No closing quotation"),
        ("<exec_path>keys</exec_path><socket>s</socket>", True, "the socket is not used"),
        ("<exec_path>keys</exec_path>", True, ""),
    ],
)
async def test_only_what_is_configured(
    paths: Paths, caplog: pytest.LogCaptureFixture, section: str | None, found: bool, said: str
) -> None:
    if section is not None:
        configure(paths, section)
    node = open_node(read_installation(paths))
    assert bool(key_request_modules(node, MasterClient(node, "test"), Background())) is found
    assert [one for one in caplog.records if one.levelno > logging.INFO and said not in one.getMessage()] == []
    assert said in caplog.text
    assert ("key_requests.asked" in node.counters.snapshot()) is found
    node.security.close()
