"""secmon-clusterd: the cluster link of a node, replication, and every call that concerns other nodes."""

import logging
import os
from collections.abc import Mapping
from typing import Any, Protocol

from grpc import aio

from secmon.cluster.executor import Executor
from secmon.cluster.files.digests import LocalFileDigests
from secmon.cluster.lease import UnlimitedLease
from secmon.cluster.node import Node, Router
from secmon.cluster.rpc.channels import OPTIONS, local_address
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.cluster.rpc.peer import Context as PeerContext
from secmon.cluster.rpc.peer import PeerService
from secmon.common.background import Background
from secmon.common.calls import Call
from secmon.common.errors import SecmonError
from secmon.daemons.daemon import Context
from secmon.daemons.daemon_host import tend
from secmon.daemons.master_role import MasterRole
from secmon.daemons.node_builder import open_node, read_installation
from secmon.daemons.worker_role import WorkerRole
from secmon.operations.all import EXECUTABLE

log = logging.getLogger("secmon.clusterd")


class ClusterRole(Protocol):
    """What a cluster daemon does as master, or as worker."""

    @property
    def router(self) -> Router: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def build(context: Context) -> "ClusterDaemon":
    """The daemon for the installation in ``context.paths``. Raises ConfigError."""
    return ClusterDaemon(open_node(read_installation(context.paths)))


class ClusterDaemon:
    """The link of one side, and the socket at which the other daemons of the node hand in their calls."""

    name = "secmon-clusterd"

    def __init__(self, node: Node) -> None:
        self.node = node
        node.services.digests = LocalFileDigests(node.paths.root, clock=node.clock)
        # The lease guards the API, where tokens come in. Calls that reach this daemon have passed it.
        node.services.lease = UnlimitedLease()
        self._executor = Executor(node, EXECUTABLE)
        self.tasks = Background()
        self.role: ClusterRole = (MasterRole if node.role == "master" else WorkerRole)(node, self._executor, self.tasks)
        self._local: aio.Server | None = None
        self._opened = 0

    async def start(self) -> None:
        """Open the link's ports and the local socket. Raises what stops the start."""
        await self.role.start()
        self._local = await self._open_socket()
        self.tasks.keep("local socket", lambda: tend(self._tend))

    async def _tend(self) -> None:
        """Open the local socket anew when somebody has removed it; calls under way are finished. Raises OSError."""
        if not self.node.paths.cluster_socket.exists():
            before, self._local = self._local, await self._open_socket()
            log.warning("%s was removed and is made anew", self.node.paths.cluster_socket)
            if before is not None:
                await before.stop(self.node.options.get("daemons.stop_timeout") / 2)

    async def _open_socket(self) -> aio.Server:
        """Listen under a name of its own, then move it: a server that ends removes the name it was opened with.

        Raises OSError.
        """
        path = self.node.paths.cluster_socket
        self._opened += 1
        aside = path.with_name(f"c-{self._opened}.sock")
        aside.unlink(missing_ok=True)
        server = aio.server(options=OPTIONS)
        service = PeerService(
            clock=self.node.clock,
            authorize=_authorize_local,
            whole=self.role.router.route,
            part=self._executor.run_part,
        )
        pb_grpc.add_PeerServicer_to_server(service, server)
        try:
            server.add_insecure_port(local_address(aside))
        except RuntimeError as error:
            raise OSError(f"{aside}: {error}") from error
        await server.start()
        os.chmod(aside, 0o660)
        os.replace(aside, path)
        return server

    async def finished(self) -> None:
        await self.tasks.failed()

    async def stop(self) -> None:
        """Finish the calls in flight, then close the link."""
        await self.tasks.stop("local socket")
        self.node.paths.cluster_socket.unlink(missing_ok=True)
        if self._local is not None:
            await self._local.stop(self.node.options.get("daemons.stop_timeout") / 2)
        await self.role.stop()
        self.node.security.close()

    async def reload(self) -> None:
        """Nothing of the link's configuration can change while it runs."""

    def counters(self) -> Mapping[str, Any]:
        return self.node.counters.snapshot()

    def active_config(self) -> Mapping[str, Any]:
        return {"cluster": self.node.main_config.cluster.as_dict()}


def _authorize_local(context: PeerContext, call: Call) -> Call:
    """Who may open the socket is trusted: its mode is 0660, and it belongs to the service user."""
    if not context.peer().startswith("unix:"):
        raise SecmonError(4000, "the local socket only")
    return call
