"""A master and workers in one process: real gRPC and TLS on free ports, temporary folders, quick timings."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import grpc
from grpc import aio

from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.link_settings import LinkSettings
from secmon.common.clock import Clock, SystemClock
from secmon.common.paths import Paths
from secmon.master.cluster_server import ClusterServer
from secmon.master.worker_session import WorkerSession
from secmon.worker.cluster_member import ClusterMember
from tests.waiting import until

KEY = b"k" * 32
Services = Sequence[Callable[[aio.Server], None]]


def settings(name: str, **changes: object) -> LinkSettings:
    """Link settings with timings of 50 ms; ``changes`` by field name."""
    quick = LinkSettings(
        node_name=name,
        cluster_name="test",
        key=KEY,
        master="127.0.0.1",
        bind_addr="127.0.0.1",
        port=0,
        enrol_port=0,
        listen_port=0,
        heartbeat_seconds=0.05,
        heartbeat_misses=40,
        reconnect_min_seconds=0.01,
        reconnect_max_seconds=0.05,
    )
    return replace(quick, **changes)  # type: ignore[arg-type]  # names are checked by replace itself


@dataclass
class ClusterKit:
    """Starts nodes below ``root`` and stops them all at the end."""

    root: Path
    clock: Clock = field(default_factory=SystemClock)
    masters: list[ClusterServer] = field(default_factory=list)
    workers: list[ClusterMember] = field(default_factory=list)

    @property
    def master(self) -> ClusterServer:
        return self.masters[-1]

    def paths(self, name: str) -> Paths:
        return Paths(self.root / name)

    def build_master(self, name: str = "master", *, clock: Clock | None = None, **changes: object) -> ClusterServer:
        """A master that is not started yet, to add listeners to."""
        made = ClusterServer(paths=self.paths(name), settings=settings(name, **changes), clock=clock or self.clock)
        self.masters.append(made)
        return made

    async def start_master(
        self, name: str = "master", *, clock: Clock | None = None, services: Services = (), **changes: object
    ) -> ClusterServer:
        made = self.build_master(name, clock=clock, **changes)
        await made.start(services)
        return made

    def build_worker(
        self, name: str, *, folder: str | None = None, clock: Clock | None = None, **changes: object
    ) -> ClusterMember:
        """A worker of the latest master, not started yet. ``folder``: another installation with the same name."""
        ports = {"port": self.master.port, "enrol_port": self.master.enrol_port} if self.masters else {}
        made = ClusterMember(
            paths=self.paths(folder or name), settings=settings(name, **(ports | changes)), clock=clock or self.clock
        )
        self.workers.append(made)
        return made

    async def start_worker(
        self,
        name: str,
        *,
        folder: str | None = None,
        clock: Clock | None = None,
        services: Services = (),
        **changes: object,
    ) -> ClusterMember:
        """A worker that begins to link; see :meth:`joined`."""
        made = self.build_worker(name, folder=folder, clock=clock, **changes)
        await made.start(services)
        return made

    async def joined(self, *names: str) -> None:
        """Wait until the master has sessions of ``names``, and these workers know it."""
        links = [worker.link for worker in self.workers if worker.settings.node_name in names]
        await until(
            lambda: all(self.master.sessions.get(name) for name in names) and all(x.connected.is_set() for x in links)
        )

    async def stop(self) -> None:
        for worker in self.workers:
            await worker.stop(grace=0)
        for master in self.masters:
            await master.stop(grace=0)


@asynccontextmanager
async def cluster(root: Path, *workers: str, clock: Clock | None = None) -> AsyncIterator[ClusterKit]:
    """A started master named ``master`` with ``workers`` that have joined."""
    kit = ClusterKit(root, clock or SystemClock())
    try:
        await kit.start_master()
        for name in workers:
            await kit.start_worker(name)
            await kit.joined(name)
        yield kit
    finally:
        await kit.stop()


class ShiftedClock(SystemClock):
    """The host's clock with a wall time that tests move; durations stay real, as certificates are checked for real."""

    def __init__(self, offset: timedelta = timedelta()) -> None:
        self.offset = offset

    def now(self) -> datetime:
        return super().now() + self.offset


class Recorder:
    """A ``SessionListener`` of the master that remembers."""

    def __init__(self) -> None:
        self.joins: list[str] = []
        self.leaves: list[tuple[str, str]] = []
        self.messages: list[pb.WorkerMessage] = []

    def joined(self, session: WorkerSession) -> None:
        self.joins.append(session.name)

    def received(self, session: WorkerSession, message: pb.WorkerMessage) -> None:
        if not message.HasField("heartbeat"):
            self.messages.append(message)

    def left(self, session: WorkerSession) -> None:
        self.leaves.append((session.name, session.reason or ""))


class Slow:
    """A service whose calls last until ``free`` is set."""

    METHOD = "/test.Slow/Work"

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.sizes: list[int] = []

    def add_to(self, server: aio.Server) -> None:
        handler = grpc.unary_unary_rpc_method_handler(
            self._work, pb.RenewRequest.FromString, pb.RenewReply.SerializeToString
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Slow", {"Work": handler}),))

    @staticmethod
    def call(channel: aio.Channel) -> aio.UnaryUnaryMultiCallable[bytes, bytes]:
        """Sends requests of any bytes."""
        return channel.unary_unary(Slow.METHOD, None, None)

    async def _work(self, request: pb.RenewRequest, _context: object) -> pb.RenewReply:
        self.sizes.append(len(request.csr))
        await self.free.wait()
        return pb.RenewReply()
