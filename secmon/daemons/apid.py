"""secmon-apid: the HTTPS API of a node."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from secmon.api.server import ApiServer, Listening, open_listening
from secmon.cluster.coordinator import Coordinator, no_peer
from secmon.cluster.executor import Executor
from secmon.cluster.fan_out import CallLimits
from secmon.cluster.node import CallRouter, Node
from secmon.cluster.routing import RoleRouter
from secmon.cluster.rpc.local_client import LocalClient
from secmon.cluster.slow_requests import SlowRequest
from secmon.common.allocator import keep_freed_memory
from secmon.common.background import Background
from secmon.common.clock import Clock, SystemClock
from secmon.daemons.daemon import KEY_PASSWORD, Context, SlowRequestsWanted
from secmon.daemons.master_client import cluster_daemon
from secmon.daemons.node_builder import Installation, open_node, read_installation
from secmon.operations.all import CATALOGUE
from secmon.operations.metrics.node_metrics import NodeMetrics


def build(context: Context) -> "ApiDaemon":
    """The daemon for the installation in ``context.paths``, with its port bound: the only step that may need root.

    Raises ConfigError, 2003, 2010.
    """
    keep_freed_memory()
    installation = read_installation(context.paths, hands_in=True)
    clock = SystemClock()
    listening = open_listening(
        installation.paths, installation.api, clock, key_password=context.secrets.get(KEY_PASSWORD)
    )
    return ApiDaemon(installation, listening, clock)


class ApiDaemon:
    """The API server, and the connection to the cluster daemon."""

    name = "secmon-apid"

    def __init__(self, installation: Installation, listening: Listening, clock: Clock) -> None:
        self._installation = installation
        self._listening = listening
        self._clock = clock
        self._node: Node | None = None
        self._cluster_daemon: LocalClient | None = None
        self._server: ApiServer | None = None
        self.tasks = Background()

    async def start(self) -> None:
        """Open the stores as the service user, then serve. Raises the errors of a start (``daemon.start_error``)."""
        node = self._node = open_node(self._installation, clock=self._clock)
        node.services.metrics = NodeMetrics(node)
        self._server = ApiServer(node, self._router(node), CATALOGUE, listening=self._listening)
        await self._server.start()

    def _router(self, node: Node) -> CallRouter:
        executor = Executor(node)
        if not node.clustered:
            node.services.nodes = coordinator = Coordinator(executor, no_peer, limits=CallLimits.of(node.options))
            return RoleRouter("master", executor, coordinator=coordinator)
        self._cluster_daemon = cluster_daemon(node)
        return RoleRouter("api", executor, forward_to=self._cluster_daemon)

    async def finished(self) -> None:
        await self.tasks.failed()

    async def stop(self) -> None:
        await self.tasks.stop()
        if self._server is not None:
            await self._server.stop(self._installation.options.get("daemons.stop_timeout"))
        if self._cluster_daemon is not None:
            await self._cluster_daemon.close()
        if self._node is not None:
            self._node.security.close()
        for each in self._listening.sockets:
            each.close()

    async def reload(self) -> None:
        """api.yaml is read at start only (conventions.md 11)."""

    def counters(self) -> Mapping[str, Any]:
        return self._node.counters.snapshot() if self._node is not None else {}

    def slow_requests(self, wanted: SlowRequestsWanted) -> Sequence[SlowRequest]:
        """See ``daemon.AnswersClients``."""
        since = timedelta(seconds=wanted.seconds_back)
        return [] if self._node is None else self._node.slow_requests.worst(since=since, limit=wanted.limit)

    def active_config(self) -> Mapping[str, Any]:
        return {"api": self._installation.api.as_dict(self._installation.paths)}
