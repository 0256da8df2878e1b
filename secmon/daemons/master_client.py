"""What the daemons of a node ask of the master: through the cluster daemon of their node, which knows the way."""

from typing import Any

from secmon.cluster.call import new_request_id
from secmon.cluster.node import Node
from secmon.cluster.rpc.local_client import LocalClient
from secmon.cluster.rpc.wire import pack_request
from secmon.common.identity import local_identity
from secmon.common.outcome import Plain

MASTER_SECONDS = 10.0
"""How long an answer is waited for; daemons ask again."""


def cluster_daemon(node: Node) -> LocalClient:
    """The cluster daemon of ``node``. Where a store of record decides its role, calls wait for a master."""
    hold = 0.0 if node.record is None else node.options.get("leaderd.hold_ms") / 1000
    return LocalClient(node.name, node.paths.cluster_socket, node.clock, hold_seconds=hold, counters=node.counters)


class MasterClient:
    """Internal operations of the master, asked by the daemon ``client``."""

    def __init__(self, node: Node, client: str) -> None:
        self._node, self._client = node, client
        self._daemon = cluster_daemon(node)

    async def call(self, operation: str, params: dict[str, Any]) -> object:
        """The data that the master answers. Raises SecmonError: 3012, 3020, 3021, 3023, 3052, and the master's own."""
        request = pack_request(
            operation, params, identity=local_identity(), request_id=new_request_id(), client=self._client
        )
        result = await self._daemon.send(request, self._node.clock.monotonic() + MASTER_SECONDS)
        return result.data if isinstance(result, Plain) else None

    async def close(self) -> None:
        """Close the connection; calls in flight fail."""
        await self._daemon.close()
