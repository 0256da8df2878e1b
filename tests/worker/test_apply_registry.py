"""Replication of the registry of agents from the master's store to a worker's, over a real link."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpc import aio
from sqlalchemy import delete, update

from secmon.agents.registry.entries import entries, tombstones
from secmon.agents.registry.registry import New, add, assign, remove
from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore, number, put
from secmon.agents.replica import verify
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.master.publish_files import FilePublisher
from secmon.master.publish_registry import RegistryPublisher
from secmon.master.replication_service import ReplicationService
from secmon.master.worker_session import WorkerSession
from secmon.worker.apply_registry import RegistryApplier
from tests.cluster_kit import ClusterKit
from tests.waiting import until
from tests.worker.replication_kit import NoSnapshots

pytestmark = pytest.mark.anyio


def enrol(store: AgentStore, *names: str) -> list[int]:
    with store.write() as connection:
        return [add(connection, New(name=name), now=1).entry.id for name in names]


def content(store: AgentStore) -> tuple[object, ...]:
    with store.read() as connection:
        rows = (*entries(connection), *tombstones(connection))
        return (number(connection, "revision"), number(connection, "next_id"), verify(connection), rows)


class Nodes:
    """A master and a worker that follows it."""

    def __init__(self, kit: ClusterKit, root: Path) -> None:
        self.kit = kit
        self.master, self.worker = AgentStore(root / "m.db"), AgentStore(root / "w.db")
        self.publisher = RegistryPublisher(self.master, counters=Counters(), poll_seconds=0.01, repeat_seconds=0.2)
        files = FilePublisher(root, clock=SystemClock(), counters=Counters())
        self.service = ReplicationService(
            root, files=files, security=NoSnapshots(), registry=self.publisher, authorize=self.authorize
        )

    def authorize(self, context: object) -> WorkerSession:
        return self.kit.master.sessions.caller(context)  # type: ignore[arg-type]  # whatever gRPC hands in

    def serve(self, server: aio.Server) -> None:
        pb_grpc.add_ReplicationServicer_to_server(self.service, server)

    async def settled(self) -> None:
        await until(lambda: content(self.master) == content(self.worker))


@asynccontextmanager
async def two_nodes(root: Path) -> AsyncIterator[Nodes]:
    kit = ClusterKit(root)
    nodes = Nodes(kit, root)
    tasks: list[asyncio.Task[None]] = []
    try:
        master = kit.build_master()
        master.sessions.listeners.append(nodes.publisher)
        await master.start([nodes.serve])
        worker = kit.build_worker("alpha")
        applier = RegistryApplier(nodes.worker)
        worker.link.listeners.append(applier)
        tasks = [asyncio.create_task(nodes.publisher.run()), asyncio.create_task(applier.run())]
        await worker.start()
        await kit.joined("alpha")
        yield nodes
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await kit.stop()
        nodes.service.close()
        nodes.master.close()
        nodes.worker.close()


async def test_each_change_is_replicated(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as nodes:
        first, second = enrol(nodes.master, "web", "db")
        await nodes.settled()
        with nodes.master.write() as connection:
            assign(connection, {first: ["default", "linux"]})
        with nodes.master.write() as connection:
            remove(connection, [second])
        await nodes.settled()
        health = {item["info"]["name"]: item for item in nodes.kit.master.health.health()}
        await until(lambda: health["alpha"]["status"]["last_sync_agentgroup"]["date_end"] != "n/a")


async def test_states_stay_when_the_registry_changes(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as nodes:
        (agent,) = enrol(nodes.master, "web")
        await nodes.settled()
        with nodes.worker.write() as connection:
            connection.execute(update(agents).values(connection_status="active", last_keepalive=7))
        with nodes.master.write() as connection:
            assign(connection, {agent: ["default"]})
        await nodes.settled()
        with nodes.worker.read() as connection:
            row = connection.execute(agents.select()).one()
        assert (row.connection_status, row.last_keepalive, row.group) == ("active", 7, "default")


async def test_a_damaged_replica_is_replaced(tmp_path: Path) -> None:
    async with two_nodes(tmp_path) as nodes:
        enrol(nodes.master, "web", "db")
        await nodes.settled()
        with nodes.worker.write() as connection:
            connection.execute(delete(agents).where(agents.c.name == "web"))
            put(connection, "digest", "f" * 32)
        assert content(nodes.worker) != content(nodes.master)
        await nodes.settled()


async def test_an_empty_registry_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    enrol_before = AgentStore(tmp_path / "w.db")
    enrol(enrol_before, "web")
    enrol_before.close()
    async with two_nodes(tmp_path) as nodes:
        with caplog.at_level(logging.WARNING):
            await until(lambda: "registry is empty" in caplog.text)
        with nodes.worker.read() as connection:
            assert [one.name for one in entries(connection)] == ["web"]
