"""secmon-clusterd: the cluster link of a node, replication, and every call that concerns other nodes."""

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from secmon.cluster.executor import Executor
from secmon.cluster.files.digests import LocalFileDigests
from secmon.cluster.lease import UnlimitedLease
from secmon.cluster.node import CallRouter, Node
from secmon.cluster.rpc.call_service import CallService, Relay
from secmon.cluster.rpc.grpc_log import quiet_peers_that_are_gone
from secmon.cluster.rpc.local_server import LocalServer
from secmon.common.allocator import keep_freed_memory
from secmon.common.background import Background
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
    def router(self) -> CallRouter: ...

    @property
    def relay(self) -> Relay | None: ...

    async def start(self) -> None: ...

    def refuse(self) -> None:
        """Begin no more calls; those under way are finished."""

    async def stop(self) -> None: ...

    def counters(self) -> Mapping[str, Any]: ...


def build(context: Context) -> "ClusterDaemon":
    """The daemon for the installation in ``context.paths``. Raises ConfigError."""
    keep_freed_memory()
    quiet_peers_that_are_gone()
    return ClusterDaemon(open_node(read_installation(context.paths)))


class ClusterDaemon:
    """The link of one side, and the socket at which the other daemons of the node hand in their calls."""

    name = "secmon-clusterd"

    def __init__(self, node: Node) -> None:
        self.node = node
        node.services.digests = LocalFileDigests(node.paths.root, clock=node.clock)
        # The lease guards the API, where tokens come in. Calls that reach this daemon have passed it.
        node.services.lease = UnlimitedLease()
        executor = Executor(node)
        self.tasks = Background()
        self.role: ClusterRole = (MasterRole if node.role == "master" else WorkerRole)(node, executor, self.tasks)
        service = CallService(
            node.name, EXECUTABLE, whole=self.role.router.route, part=executor.run_part, relay=self.role.relay
        )
        self._local = LocalServer(node.paths.cluster_socket, service, node.clock)

    async def start(self) -> None:
        """Open the link's ports and the local socket. Raises what stops the start."""
        await self.role.start()
        await self._local.open()
        self.tasks.keep("local socket", lambda: tend(self._local.tend))

    async def finished(self) -> None:
        await self.tasks.failed()

    async def stop(self) -> None:
        """Finish the calls in flight, then close the link."""
        await self.tasks.stop("local socket")
        self.role.refuse()
        await self._local.stop(self.node.options.get("daemons.stop_timeout") / 2)
        await self.role.stop()
        self.node.security.close()

    async def reload(self) -> None:
        """Nothing of the link's configuration can change while it runs."""

    def counters(self) -> Mapping[str, Any]:
        return {**self.node.counters.snapshot(), **self.role.counters()}

    def active_config(self) -> Mapping[str, Any]:
        return {"cluster": self.node.main_config.cluster.as_dict()}
