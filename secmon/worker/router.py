"""A worker answers what it can by itself and passes the rest to the master."""

from collections.abc import Awaitable, Callable

from msgspec import structs

from secmon.cluster.catalogue import Place
from secmon.cluster.coordinator import Coordinator
from secmon.cluster.executor import Executor
from secmon.cluster.node import Peer
from secmon.common.calls import Call
from secmon.common.errors import SecmonError
from secmon.common.identity import node_identity
from secmon.common.outcome import Result

FindMaster = Callable[[float], Awaitable[Peer | None]]


class WorkerRouter:
    """Places on a worker."""

    def __init__(
        self,
        executor: Executor,
        coordinator: Coordinator,
        find_master: FindMaster,
        *,
        hold_seconds: float,
        refusal: Callable[[], SecmonError | None] = lambda: None,
    ) -> None:
        """``find_master`` waits so many seconds for the master's session; a call waits ``hold_seconds`` at most.

        ``refusal``: why the master keeps this node out, if it does.
        """
        self._executor = executor
        self._coordinator = coordinator
        self._find_master = find_master
        self._hold_seconds = hold_seconds
        self._refusal = refusal

    async def route(self, call: Call) -> Result:
        """See ``cluster.node.Router``. Raises 3023 when the master stays away, 902 for what only masters answer."""
        operation = self._executor.operation(call)
        if operation.place is Place.ANY:
            return await self._executor.run(call)
        if operation.place is Place.MASTER_ONLY:
            raise SecmonError(902)
        if operation.place is Place.NODE and call.params.get(operation.node_param or "") == self._executor.node.name:
            return await self._coordinator.run(call)
        return await self._forward(call)

    async def _forward(self, call: Call) -> Result:
        node = self._executor.node
        hold = self._hold_seconds
        if call.deadline is not None:
            hold = max(0.0, min(hold, (call.deadline - node.clock.monotonic()) / 2))
        master = await self._find_master(hold)
        if master is None:
            refusal = self._refusal()
            lost = SecmonError(3023, f"the master refuses it: {refusal}" if refusal else None)
            lost.nodes = {node.name: lost.message}
            raise lost
        if call.identity.local:  # this host's own authority ends at this host
            call = structs.replace(call, identity=node_identity(), token="")
        return await master.execute(call, part=False)
