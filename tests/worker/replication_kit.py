"""A master and its workers in one process: real folders, real change notification, real gRPC; no Join stream."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from grpc import aio

from secmon.cluster.rpc.credentials import new_server
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.cluster.rpc.version import PROTOCOL
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.master.publish_files import FilePublisher
from secmon.master.replication_service import ReplicationService
from secmon.security.store.replication import Snapshot
from secmon.worker.apply_files import FileApplier, FileLimits
from tests.folders import files_below

QUICK = FileLimits(retry_seconds=0.02, retry_most_seconds=0.1)


class ThisRelease:
    """A worker that asks."""

    protocol = PROTOCOL


class Wire:
    """Both ends of one session: what the master sends reaches the worker's listener, and the other way round.

    ``hold`` stops the way down until it is released: a slow network.
    """

    def __init__(self, name: str, channel: aio.Channel, publisher: Any, applier: Any) -> None:
        self.name = name
        self.protocol = PROTOCOL
        self.channel: aio.Channel | None = channel
        self.pushes: list[pb.MasterMessage] = []
        self.replies: list[pb.WorkerMessage] = []
        self.open = True
        self._publisher = publisher
        self._applier = applier
        self._down: asyncio.Queue[pb.MasterMessage] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self.flowing = asyncio.Event()
        self.flowing.set()

    @property
    def acks(self) -> list[pb.FilesAck]:
        return [reply.files_ack for reply in self.replies if reply.HasField("files_ack")]

    def send(self, message: Any) -> None:
        """As the master's session for its messages, as the worker's link for the worker's."""
        if not self.open:
            raise SecmonError(3023)
        if isinstance(message, pb.MasterMessage):
            self.pushes.append(message)
            self._down.put_nowait(message)
        else:
            self.replies.append(message)
            self._publisher.received(self, message)

    def heard(self) -> None:
        """Signs of life are not part of these tests."""

    async def join(self) -> None:
        self._publisher.joined(self)
        await self._applier.connected(self, pb.Welcome())
        self._task = asyncio.create_task(self._run())

    async def heartbeat(self) -> None:
        """Send a heartbeat of the master with its position."""
        position = self._publisher.position()
        if isinstance(self._publisher, FilePublisher):
            self.send(pb.MasterMessage(heartbeat=pb.MasterHeartbeat(files=position)))
        else:
            self.send(pb.MasterMessage(heartbeat=pb.MasterHeartbeat(security=position)))

    async def leave(self) -> None:
        self.open = False
        self._publisher.left(self)
        await self._applier.disconnected("test")
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            message = await self._down.get()
            await self.flowing.wait()
            await self._applier.received(self, message)


class NoRegistry:
    """A master without requests for its registry."""

    def changes(self, source: str, since: int) -> bytes:
        raise AssertionError("no test requests it here")


class NoSnapshots:
    """A security store that is not used."""

    def snapshot(self) -> Snapshot:
        raise AssertionError("not requested here")


@asynccontextmanager
async def serving(
    service: pb_grpc.ReplicationServicer, *, request_bytes: Mapping[str, int] | None = None
) -> AsyncIterator[aio.Channel]:
    """The service on a real port, and a channel to it."""
    server = new_server(request_bytes=request_bytes)
    pb_grpc.add_ReplicationServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = aio.insecure_channel(f"127.0.0.1:{port}")
    try:
        yield channel
    finally:
        await channel.close(None)
        await server.stop(None)


@asynccontextmanager
async def running(*parts: Any) -> AsyncIterator[None]:
    """Run the ``run()`` of all parts meanwhile; their failures are ours."""
    tasks = [asyncio.create_task(part.run()) for part in parts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


class Master:
    """The publishing side, running."""

    def __init__(self, root: Path, anti_entropy_seconds: float = 60.0) -> None:
        self.root = root
        self.publisher = FilePublisher(
            root, clock=SystemClock(), counters=Counters(), anti_entropy_seconds=anti_entropy_seconds
        )
        self.service = ReplicationService(
            root,
            files=self.publisher,
            security=NoSnapshots(),
            registry=NoRegistry(),
            authorize=lambda context: ThisRelease(),
        )


class Worker:
    """The applying side, running."""

    def __init__(self, root: Path, limits: FileLimits = QUICK) -> None:
        self.root = root
        self.staging = root / "queue/cluster/files"
        self.applier = FileApplier(root, self.staging, clock=SystemClock(), limits=limits)
        self.applied: list[str] = []
        self.applier.on_applied.append(self.applied.extend)

    def equals(self, master: Master) -> bool:
        """Whether the worker says that it has what the master has published."""
        return self.applier.position() == master.publisher.position() != pb.Position()


@asynccontextmanager
async def pair(master: Master, worker: Worker) -> AsyncIterator[Wire]:
    """Both running and connected."""
    async with serving(master.service) as channel, running(master.publisher, worker.applier):
        wire = Wire("beta", channel, master.publisher, worker.applier)
        await wire.join()
        try:
            yield wire
        finally:
            await wire.leave()
    master.service.close()
    assert not worker.staging.exists(), "staging is left over"


def tree(root: Path) -> dict[str, bytes]:
    """All files below the watched folders, read now."""
    return {str(path.relative_to(root)): data for top in ("etc", "var") for path, data in files_below(root / top)}
