"""What the daemons of a worker ask of the master: through the cluster daemon of their node, which knows the way."""

import os
from typing import Any

from grpc import aio

from secmon.cluster.node import Node
from secmon.cluster.rpc.channels import local_channel, local_failure
from secmon.cluster.rpc.peer import RemotePeer
from secmon.common.calls import Call
from secmon.common.identity import local_identity
from secmon.common.outcome import Plain

MASTER_SECONDS = 10.0
"""How long an answer is waited for; daemons ask again."""


class MasterClient:
    """Internal operations of the master, asked by the daemon ``client``."""

    def __init__(self, node: Node, client: str) -> None:
        self._node, self._client = node, client
        self._channel: aio.Channel | None = None

    async def call(self, operation: str, params: dict[str, Any]) -> object:
        """The data that the master answers. Raises SecmonError: 3012, 3020, 3021, 3023, and the master's own."""
        node, socket = self._node, self._node.paths.cluster_socket
        if self._channel is None:
            self._channel = local_channel(socket)
        peer = RemotePeer(node.name, self._channel, node.clock, unreachable=lambda: local_failure(socket))
        call = Call(
            operation=operation,
            params=params,
            identity=local_identity(),
            request_id=os.urandom(16).hex(),
            deadline=node.clock.monotonic() + MASTER_SECONDS,
            client=self._client,
        )
        result = await peer.execute(call, part=False)
        return result.data if isinstance(result, Plain) else None

    async def close(self) -> None:
        """Close the channel; calls under way fail."""
        if self._channel is not None:
            await self._channel.close(None)
            self._channel = None
