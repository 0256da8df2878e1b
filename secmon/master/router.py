"""The master brings calls to where they run."""

from secmon.cluster.catalogue import Place
from secmon.cluster.coordinator import Coordinator
from secmon.cluster.executor import Executor
from secmon.common.calls import Call
from secmon.common.outcome import Result


class MasterRouter:
    """Places on the master; also on a node without a cluster, which is its own master."""

    def __init__(self, executor: Executor, coordinator: Coordinator) -> None:
        self._executor = executor
        self._coordinator = coordinator

    async def route(self, call: Call) -> Result:
        """See ``cluster.node.Router``."""
        match self._executor.operation(call).place:
            case Place.ANY | Place.MASTER | Place.MASTER_ONLY | Place.AGENT:
                return await self._executor.run(call)
            case Place.NODE | Place.NODES:
                return await self._coordinator.run(call)
