"""A worker passes the calls that it cannot answer itself to the master, and the bytes of the answers back."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Protocol

import msgspec

from secmon.cluster.call import Call
from secmon.cluster.catalogue import Operation
from secmon.cluster.node import Node, Peer
from secmon.cluster.routing import forwards_all
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.errors import SecmonError
from secmon.common.identity import node_identity
from secmon.common.outcome import Result

_NODE_IDENTITY = msgspec.msgpack.encode(node_identity())


class Master(Peer, Protocol):
    """The master, as a connected worker sees it."""

    def relay(self, request: pb.ExecuteRequest, deadline: float | None) -> AsyncGenerator[bytes, None]:
        """The serialized chunks with which the master answers."""


FindMaster = Callable[[float], Awaitable[Master | None]]


class MasterForwarder:
    """Implements ``cluster.node.Peer`` with whichever session the worker has with the master."""

    def __init__(
        self,
        node: Node,
        find_master: FindMaster,
        *,
        hold_seconds: float,
        refusal: Callable[[], SecmonError | None] = lambda: None,
    ) -> None:
        """``find_master`` waits so many seconds for the master's session; a call waits ``hold_seconds`` at most.

        ``refusal``: why the master keeps this node out, if it does.
        """
        self._node = node
        self._find_master = find_master
        self._hold_seconds = hold_seconds
        self._refusal = refusal

    async def execute(self, call: Call, *, part: bool) -> Result:
        """See ``cluster.node.Peer``. Raises 3023 when the master stays away."""
        master = await self._master(call.deadline)
        if call.identity.local:  # this host's own authority ends at this host
            call = msgspec.structs.replace(call, identity=node_identity(), token="")
        return await master.execute(call, part=part)

    def relay(
        self, operation: Operation, request: pb.ExecuteRequest, deadline: float | None
    ) -> AsyncGenerator[bytes, None] | None:
        """The master's answer to a request of a daemon of this node; None for what is not the master's alone."""
        if request.part or not forwards_all("worker", operation):
            return None
        return self._relayed(request, deadline)

    async def _relayed(self, request: pb.ExecuteRequest, deadline: float | None) -> AsyncGenerator[bytes, None]:
        master = await self._master(deadline)
        request.identity = _NODE_IDENTITY  # the master draws the caller from the token, and believes nothing else
        async with aclosing(master.relay(request, deadline)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _master(self, deadline: float | None) -> Master:
        node, hold = self._node, self._hold_seconds
        if deadline is not None:
            hold = max(0.0, min(hold, (deadline - node.clock.monotonic()) / 2))
        master = await self._find_master(hold)
        if master is None:
            refusal = self._refusal()
            lost = SecmonError(3023, f"the master refuses it: {refusal}" if refusal else None)
            lost.nodes = {node.name: lost.message}
            raise lost
        return master
