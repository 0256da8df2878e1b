"""secmon-db: stores what agents report, with its real folders and stores."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from secmon.agentlink.local_socket import LocalSocket
from secmon.agents.link.wire import Answer, Question, SendMessages
from secmon.agents.registry import registry
from secmon.agents.registry.store import AgentStore
from secmon.common.clock import SystemClock
from secmon.common.paths import Paths
from secmon.config.main import AgentPorts
from secmon.daemons.daemon import Context
from secmon.daemons.db import InventoryDaemon, build
from secmon.daemons.install import install
from secmon.inventory.schema import hotfixes, metadata
from secmon.inventory.store import InventoryStore
from secmon.journal.journal import JournalWriter
from tests.integration.kit import free_port
from tests.inventory.synchronization.model_agent import ModelAgent, sha1
from tests.waiting import until

pytestmark = pytest.mark.anyio
AGENT = 1


class Node:
    """An installation, and the journal in which messages of its agent arrive."""

    def __init__(self, root: Path) -> None:
        self.paths = Paths(root / "n")
        install(self.paths, cluster=None, agent_ports=AgentPorts(connections=free_port()))
        self.journal = JournalWriter(self.paths.events, SystemClock(), limit=1 << 22, segment=1 << 20)
        self.registry = AgentStore(self.paths.agents_db)
        with self.registry.write() as connection:
            self.agent = registry.add(connection, registry.New(name="web", groups=()), now=0).entry.id
        assert self.agent == AGENT

    def send(self, *bodies: str) -> None:
        self.journal.append([f"5:[001] (web) any->syscollector:{body}".encode() for body in bodies])

    def rows(self) -> int:
        """Rows of the agent in all tables."""
        store = InventoryStore(self.paths.inventory_db)
        try:
            with store.read() as connection:
                tables = [table for table in metadata.sorted_tables if "agent_id" in table.c]
                found = (
                    connection.execute(select(table.c.agent_id).where(table.c.agent_id == AGENT)) for table in tables
                )
                return sum(len(result.all()) for result in found)
        finally:
            store.close()

    def hotfixes(self) -> list[str]:
        store = InventoryStore(self.paths.inventory_db)
        try:
            with store.read() as connection:
                return list(connection.execute(select(hotfixes.c.hotfix)).scalars())
        finally:
            store.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[InventoryDaemon]:
        daemon = build(Context(name="secmon-db", paths=self.paths))
        try:
            await daemon.start()
            yield daemon
        finally:
            await daemon.stop()


@pytest.fixture
def node(root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("secmon.daemons.db._REGISTRY_SECONDS", 0.05)
    made = Node(root)
    yield made
    made.journal.close()
    made.registry.close()


def hotfix(name: str) -> dict[str, Any]:
    return {"index": name, "timestamp": "", "attributes": {"hotfix": name, "checksum": sha1(name)}}


async def test_messages_are_stored_and_answers_counted(node: Node) -> None:
    agent = ModelAgent("syscollector_hotfixes", {name: hotfix(name) for name in ("KB1", "KB2")})
    async with node.running() as daemon:

        def counted(name: str) -> Any:
            return daemon.counters().get(f"inventory.{name}")

        node.send(*agent.begin(5))
        await until(lambda: counted("answers_unsent") == 1)  # there is no link to agents
        node.send(agent.state("KB1"), agent.state("KB2"), "{", *agent.begin(6))
        await until(lambda: counted("messages") == 5)
        assert (counted("answers_unsent"), counted("malformed")) == (1, 1)
        assert (counted("handled.syscollector_hotfixes"), counted("unread_bytes"), counted("lost")) == (4, 0, 0)
        assert counted("store_bytes") > 0
    assert node.hotfixes() == ["KB1", "KB2"]


async def test_an_answer_that_is_not_sent_costs_a_round(node: Node) -> None:
    """Nothing is sent again: the next check of the agent is answered, with or without those of before."""
    agent = ModelAgent("syscollector_hotfixes", {name: hotfix(name) for name in ("KB1", "KB2", "KB3")})
    connected = False

    async def answer(question: Question) -> Answer:
        assert isinstance(question, SendMessages)
        for _, text in question.messages if connected else ():
            node.send(*agent.answered(text.removeprefix("#!-")))
        return Answer(unsent=[] if connected else [number for number, _ in question.messages])

    async with node.running() as daemon:

        def unsent() -> Any:
            return daemon.counters().get("inventory.answers_unsent")

        node.send(*agent.begin(5))
        await until(lambda: unsent() == 1)  # secmon-remoted does not run
        link = LocalSocket(node.paths.agent_link_socket, answer)
        await link.open()
        try:
            node.send(*agent.begin(6))
            await until(lambda: unsent() == 2)  # the agent is not connected
            connected = True
            node.send(*agent.begin(7))
            await until(lambda: node.hotfixes() == ["KB1", "KB2", "KB3"])
        finally:
            await link.close()
        await until(lambda: daemon.counters()["inventory.answers_waiting"] == 0)
        assert unsent() == 2


async def test_rows_of_a_removed_agent_are_deleted(node: Node) -> None:
    agent = ModelAgent("syscollector_hotfixes", {"KB1": hotfix("KB1")})
    async with node.running() as daemon:
        node.send(agent.state("KB1"), *agent.begin(5))
        await until(lambda: node.hotfixes() == ["KB1"] and node.rows() > 1)
        with node.registry.write() as connection:
            registry.remove(connection, [AGENT], purge=True)
        await until(lambda: daemon.counters().get("inventory.agents_removed") == 1)  # counted after the deletion
        assert node.rows() == 0
    node.send(agent.state("KB1"))
    async with node.running() as daemon:  # the message was waiting when the agent was removed
        await until(lambda: daemon.counters().get("inventory.agents_removed") == 1)
        assert node.rows() == 0
