"""secmon-apid: the HTTPS API of a node."""

import asyncio
from collections.abc import Mapping
from typing import Any

from grpc import aio

from secmon.api.router import ApiRouter
from secmon.api.server import ApiServer
from secmon.common.node import Node, Router
from secmon.common.operations.all import CATALOGUE
from secmon.common.operations.coordinator import Coordinator, no_peer
from secmon.common.operations.executor import Executor
from secmon.common.rpc.channels import local_channel
from secmon.common.rpc.peer import RemotePeer
from secmon.daemons.assembly import open_node, read_installation
from secmon.daemons.daemon import KEY_PASSWORD, Context
from secmon.master.router import MasterRouter


def build(context: Context) -> "ApiDaemon":
    """The daemon for the installation in ``context.paths``. Raises ConfigError."""
    return ApiDaemon(open_node(read_installation(context.paths)), key_password=context.secrets.get(KEY_PASSWORD))


class ApiDaemon:
    """The API server, and the channel to the cluster daemon."""

    name = "secmon-apid"

    def __init__(self, node: Node, *, key_password: str | None = None) -> None:
        self.node = node
        self._key_password = key_password
        self._channel: aio.Channel | None = None
        self._server: ApiServer | None = None
        self._stopping = asyncio.Event()

    async def start(self) -> None:
        """Open the port, then serve. Raises what stops the start."""
        self._server = ApiServer(self.node, self._router(), CATALOGUE, key_password=self._key_password)
        self._server.bind()
        await self._server.start()

    def _router(self) -> Router:
        executor = Executor(self.node, CATALOGUE)
        if not self.node.clustered:
            return MasterRouter(executor, Coordinator(executor, no_peer, limit=1))
        self._channel = local_channel(self.node.paths.cluster_socket)
        return ApiRouter(executor, RemotePeer(self.node.name, self._channel, self.node.clock, unreachable=3012))

    async def finished(self) -> None:
        await self._stopping.wait()

    async def stop(self) -> None:
        self._stopping.set()
        if self._server is not None:
            await self._server.stop(self.node.options.get("daemons.stop_timeout"))
        if self._channel is not None:
            await self._channel.close(None)
        self.node.security.close()

    async def reload(self) -> None:
        """api.yaml is read at start only, as the specification has it."""

    def counters(self) -> Mapping[str, Any]:
        return self.node.counters.snapshot()

    def active_config(self) -> Mapping[str, Any]:
        return {"api": self.node.api_config.as_dict(self.node.paths)}
