"""The Peer service: executing calls of other nodes, and having other nodes execute ours."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
from grpc import aio

from secmon.cluster.rpc.channels import ChannelClosed, closable
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.cluster.rpc.wire import pack_call, pack_failure, pack_result, unpack_call, unpack_result
from secmon.common.calls import Call
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.common.outcome import Result
from secmon.security.authentication_error import AuthenticationError

log = logging.getLogger("secmon.clusterd.peer")

MAX_DEADLINE_SECONDS = 86_400.0
"""A deadline further away is none: no sum with the clock may overflow."""

Run = Callable[[Call], Awaitable[Result]]
Authorize = Callable[["Context", Call], Call]
Context = aio.ServicerContext[pb.ExecuteRequest, pb.ExecuteChunk]


class PeerService(pb_grpc.PeerServicer):
    """Executes calls.

    ``authorize`` checks the caller: it returns the call, perhaps with another identity, or raises. ``whole`` routes a
    call as if a client had sent it to this node, ``part`` runs this node's share.
    """

    def __init__(self, *, clock: Clock, authorize: Authorize, whole: Run, part: Run) -> None:
        self._clock = clock
        self._authorize = authorize
        self._whole = whole
        self._part = part

    async def Execute(self, request: pb.ExecuteRequest, context: Context) -> AsyncIterator[pb.ExecuteChunk]:
        remaining = context.time_remaining()
        limited = remaining is not None and remaining < MAX_DEADLINE_SECONDS
        deadline = self._clock.monotonic() + (remaining or 0.0) if limited else None
        try:
            call = self._authorize(context, unpack_call(request, deadline))
            result = await (self._part if request.part else self._whole)(call)
        except (SecmonError, AuthenticationError) as error:
            log.debug("request %.64r: %.256r failed: %s", request.request_id, request.operation, error)
            yield pack_failure(error)
            return
        for chunk in pack_result(result):
            yield chunk


class RemotePeer:
    """A node, or the cluster daemon of this one, behind a channel; implements ``cluster.node.Peer``."""

    def __init__(
        self,
        name: str,
        channel: aio.Channel,
        clock: Clock,
        *,
        unreachable: Callable[[], SecmonError] = lambda: SecmonError(3022),
    ) -> None:
        """``unreachable`` makes the error for a connection that is not there."""
        self.name = name
        self._stub = pb_grpc.PeerStub(channel)
        self._clock = clock
        self._unreachable = unreachable

    async def execute(self, call: Call, *, part: bool) -> Result:
        """See ``cluster.node.Peer``. Cancelling this task cancels the work over there."""
        limit = None if call.deadline is None else max(0.001, call.deadline - self._clock.monotonic())
        try:
            with closable():
                stream = self._stub.Execute(pack_call(call, part=part), timeout=limit)
                try:
                    return await unpack_result(stream)
                finally:
                    stream.cancel()
        except aio.AioRpcError as error:
            raise self._translate(error) from None
        except ChannelClosed:  # the node's session ended
            raise self._named(self._unreachable()) from None

    def _translate(self, error: aio.AioRpcError) -> SecmonError:
        match error.code():
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                failure = SecmonError(3021)
            case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED:
                failure = self._unreachable()
            case code:
                failure = SecmonError(3018, code.name)
                log.warning("node %s: call failed: %s: %s", self.name, code.name, error.details())
        return self._named(failure)

    def _named(self, failure: SecmonError) -> SecmonError:
        failure.nodes = {self.name: failure.message}
        return failure
