"""A worker passes the calls that it cannot answer itself to the master, and the bytes of the answers back."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Protocol

import msgspec

from secmon.cluster.call import Call
from secmon.cluster.catalogue import Operation
from secmon.cluster.node import Node, Peer
from secmon.cluster.routing import forwards_all
from secmon.cluster.rpc.flow_control import WINDOW_BYTES
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.request_budget import MAX_REQUEST_BYTES
from secmon.common.errors import SecmonError
from secmon.common.identity import node_identity
from secmon.common.outcome import Result
from secmon.common.trace import span

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
        self._large_request = asyncio.Lock()
        self._holds: set[asyncio.Timeout] = set()

    def refuse(self) -> None:
        """End the wait of all calls for the master: this daemon stops. They were not sent, and can be sent again."""
        for hold in self._holds:
            hold.reschedule(asyncio.get_running_loop().time())

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
        async with self._turn(request, deadline), aclosing(master.relay(request, deadline)) as chunks:
            async for chunk in chunks:
                yield chunk

    @asynccontextmanager
    async def _turn(self, request: pb.ExecuteRequest, deadline: float | None) -> AsyncIterator[None]:
        """One large request at a time: the master receives two messages of a node at once, and small ones go past.

        Raises 3018 for a request that the master does not receive, 3021 when the turn does not come in time.
        """
        size = request.ByteSize()
        if size > MAX_REQUEST_BYTES:
            raise self._named(SecmonError(3018, f"it has {size} bytes, {MAX_REQUEST_BYTES} are allowed"))
        if size <= WINDOW_BYTES:
            yield
            return
        try:
            async with asyncio.timeout(None if deadline is None else deadline - self._node.clock.monotonic()):
                await self._large_request.acquire()
        except TimeoutError:
            raise self._named(SecmonError(3021)) from None
        try:
            yield
        finally:
            self._large_request.release()

    def _named(self, error: SecmonError) -> SecmonError:
        error.nodes = {self._node.name: error.message}
        return error

    async def _master(self, deadline: float | None) -> Master:
        hold = self._hold_seconds
        if deadline is not None:
            hold = max(0.0, min(hold, (deadline - self._node.clock.monotonic()) / 2))
        with span("master"):
            master = await self._wait(hold)
        if master is None:
            refusal = self._refusal()
            raise self._named(SecmonError(3023, f"the master refuses it: {refusal}" if refusal else None))
        return master

    async def _wait(self, seconds: float) -> Master | None:
        try:
            async with asyncio.timeout(None) as hold:
                self._holds.add(hold)
                return await self._find_master(seconds)
        except TimeoutError:
            return None
        finally:
            self._holds.discard(hold)
