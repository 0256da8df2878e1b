"""The API process runs what this node can answer alone; everything else goes through the cluster daemon."""

from secmon.cluster.catalogue import Place
from secmon.cluster.executor import Executor
from secmon.cluster.node import Peer
from secmon.common.calls import Call
from secmon.common.outcome import Result


class ApiRouter:
    """Places as the API process of a clustered node sees them."""

    def __init__(self, executor: Executor, cluster_daemon: Peer) -> None:
        self._executor = executor
        self._cluster_daemon = cluster_daemon

    async def route(self, call: Call) -> Result:
        """See ``cluster.node.Router``. Raises 3012 when the cluster daemon is not there."""
        if self._executor.operation(call).place is Place.ANY:
            return await self._executor.run(call)
        return await self._cluster_daemon.execute(call, part=False)
