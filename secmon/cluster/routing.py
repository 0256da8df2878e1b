"""Where a call runs: one table by place and role."""

from collections.abc import Mapping
from enum import Enum
from typing import Literal

from secmon.cluster.call import Call
from secmon.cluster.catalogue import Operation, Place
from secmon.cluster.coordinator import Coordinator
from secmon.cluster.executor import Executor
from secmon.cluster.node import Peer
from secmon.common.errors import SecmonError
from secmon.common.outcome import Result

RouterRole = Literal["api", "master", "worker"]
"""``api``: a process of a clustered node other than its cluster daemon. A node without a cluster is its own master."""


class Destination(Enum):
    """What a process does with a call."""

    HERE = "run it"
    NODES = "ask the nodes that it names"
    NAMED = "run it when it names this node, else forward it"
    FORWARD = "hand it to the cluster daemon of this node, or to the master"
    REFUSED = "refuse it"


DESTINATIONS: Mapping[RouterRole, Mapping[Place, Destination]] = {
    "api": {
        Place.ANY: Destination.HERE,
        Place.MASTER: Destination.FORWARD,
        Place.MASTER_ONLY: Destination.FORWARD,
        Place.NODE: Destination.FORWARD,
        Place.NODES: Destination.FORWARD,
        Place.AGENT: Destination.FORWARD,
    },
    "master": {
        Place.ANY: Destination.HERE,
        Place.MASTER: Destination.HERE,
        Place.MASTER_ONLY: Destination.HERE,
        Place.NODE: Destination.NODES,
        Place.NODES: Destination.NODES,
        Place.AGENT: Destination.HERE,
    },
    "worker": {
        Place.ANY: Destination.HERE,
        Place.MASTER: Destination.FORWARD,
        Place.MASTER_ONLY: Destination.REFUSED,
        Place.NODE: Destination.NAMED,
        Place.NODES: Destination.FORWARD,
        Place.AGENT: Destination.FORWARD,
    },
}


def forwards_all(role: RouterRole, operation: Operation) -> bool:
    """Whether a process forwards every call of the operation, whatever its parameters."""
    return DESTINATIONS[role][operation.place] is Destination.FORWARD


class RoleRouter:
    """Implements ``cluster.node.CallRouter`` for a process with one role."""

    def __init__(
        self,
        role: RouterRole,
        executor: Executor,
        *,
        coordinator: Coordinator | None = None,
        forward_to: Peer | None = None,
    ) -> None:
        """``coordinator`` of a master or worker; ``forward_to``: the cluster daemon, or the master, of the others."""
        self._destinations = DESTINATIONS[role]
        self._executor = executor
        self._coordinator = coordinator
        self._forward_to = forward_to

    async def route(self, call: Call) -> Result:
        """Run the call at its place. Raises 902 for what only masters answer, and what the place raises."""
        match self._destinations[call.operation.place]:
            case Destination.HERE:
                return await self._executor.run(call)
            case Destination.NODES:
                return await self._coordinate(call)
            case Destination.NAMED if _names(call, self._executor.node.name):
                return await self._coordinate(call)
            case Destination.REFUSED:
                raise SecmonError(902)
        assert self._forward_to is not None
        return await self._forward_to.execute(call, part=False)

    async def _coordinate(self, call: Call) -> Result:
        assert self._coordinator is not None
        return await self._coordinator.run(call)


def _names(call: Call, node: str) -> bool:
    return bool(getattr(call.params, call.operation.node_param or "", None) == node)
