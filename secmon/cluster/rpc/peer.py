"""Calls between nodes over gRPC: the Peer service, and the nodes behind channels."""

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial

import grpc
from grpc import aio

from secmon.cluster.call import Call
from secmon.cluster.rpc.answer_budget import AnswerBudget
from secmon.cluster.rpc.call_service import CallService
from secmon.cluster.rpc.closed_channel import ChannelClosed, closable
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.held_calls import is_read
from secmon.cluster.rpc.spent import passage
from secmon.cluster.rpc.wire import ResultReader, pack_call, pack_reply
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.common.outcome import Result

log = logging.getLogger("secmon.clusterd.peer")

MAX_DEADLINE_SECONDS = 86_400.0
"""A deadline further away is none: no sum with the clock may overflow."""

Context = aio.ServicerContext[pb.ExecuteRequest, bytes]
Authorize = Callable[[Context, Call], Call]

SERVICE = "secmon.v1.Peer"
CALL, EXECUTE = "Call", "Execute"


class PeerService:
    """Executes the calls of other nodes. Answers are bytes already: nothing is serialized twice."""

    def __init__(self, service: CallService, *, clock: Clock, authorize: Authorize) -> None:
        """``authorize`` checks the caller: it returns the call, perhaps with another identity, or raises."""
        self._service = service
        self._clock = clock
        self._authorize = authorize

    def add_to(self, server: aio.Server) -> None:
        """Register the service."""
        read = pb.ExecuteRequest.FromString
        handlers = {
            CALL: grpc.unary_unary_rpc_method_handler(self._call, read, pb.ExecuteReply.SerializeToString),
            EXECUTE: grpc.unary_stream_rpc_method_handler(self._execute, read),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))

    async def _call(self, request: pb.ExecuteRequest, context: Context) -> pb.ExecuteReply:
        return pack_reply([chunk async for chunk in self._chunks(request, context)])

    async def _execute(self, request: pb.ExecuteRequest, context: Context) -> AsyncGenerator[bytes, None]:
        async for chunk in self._chunks(request, context):
            yield chunk

    def _chunks(self, request: pb.ExecuteRequest, context: Context) -> AsyncGenerator[bytes, None]:
        remaining = context.time_remaining()
        limited = remaining is not None and remaining < MAX_DEADLINE_SECONDS
        deadline = self._clock.monotonic() + (remaining or 0.0) if limited else None
        return self._service.answer(request, deadline, partial(self._authorize, context))


class RemotePeer:
    """A node behind a channel; implements ``cluster.node.Peer``."""

    def __init__(
        self,
        name: str,
        channel: aio.Channel,
        clock: Clock,
        *,
        unreachable: Callable[[], SecmonError] = lambda: SecmonError(3022),
        whole: bool = False,
        answers: AnswerBudget | None = None,
    ) -> None:
        """``unreachable`` makes the error for a connection that is not there. ``answers``: the room for those of the
        node; by default for each call of this object.

        ``whole``: the calls are those of clients, not parts of them. When the connection ends under one that is not a
        read, the error is 3052: it may have been done.
        """
        self.name = name
        write = pb.ExecuteRequest.SerializeToString
        self._call = channel.unary_unary(f"/{SERVICE}/{CALL}", write, pb.ExecuteReply.FromString)
        self._execute = channel.unary_stream(f"/{SERVICE}/{EXECUTE}", write, None)
        self._clock = clock
        self._unreachable = unreachable
        self._whole = whole
        self._answers = answers or AnswerBudget()

    async def execute(self, call: Call, *, part: bool) -> Result:
        """See ``cluster.node.Peer``. Cancelling this task cancels the work over there."""
        with self._answers.share() as share:
            reader = ResultReader(share)
            with passage(reader.spent, self.name):
                async with aclosing(self.relay(pack_call(call, part=part), call.deadline)) as chunks:
                    async for chunk in chunks:
                        reader.add(chunk)
            return share.kept_by(reader.result())

    async def relay(self, request: pb.ExecuteRequest, deadline: float | None) -> AsyncGenerator[bytes, None]:
        """The serialized chunks with which the node answers, as they come.

        Raises as :meth:`execute`, but for what the chunks say.
        """
        limit = None if deadline is None else max(0.001, deadline - self._clock.monotonic())
        try:
            with closable():
                if not request.streamed and (chunks := await self._in_one_message(request, limit)) is not None:
                    for chunk in chunks:
                        yield chunk
                    return
                stream = self._execute(request, timeout=limit)
                try:
                    async for chunk in stream:
                        yield chunk
                finally:
                    stream.cancel()
        except aio.AioRpcError as error:
            raise self._named(self._translate(error, request)) from None
        except ChannelClosed as closed:  # the node's session ended
            raise self._named(self._lost(request) if closed.in_flight else self._unreachable()) from None

    async def _in_one_message(self, request: pb.ExecuteRequest, limit: float | None) -> Sequence[bytes] | None:
        """The chunks of the answer; None from a node whose version cannot do that."""
        try:
            reply: pb.ExecuteReply = await self._call(request, timeout=limit)
        except aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return None
            raise
        return reply.chunks

    def _translate(self, error: aio.AioRpcError, request: pb.ExecuteRequest) -> SecmonError:
        match error.code():
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return SecmonError(3021)
            case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED:
                return self._lost(request)
            case code:
                log.warning("node %s: call failed: %s: %s", self.name, code.name, error.details())
                return SecmonError(3018, code.name)

    def _lost(self, request: pb.ExecuteRequest) -> SecmonError:
        if self._whole and not is_read(request):
            return SecmonError(3052, "the connection to the master has ended before its answer")
        return self._unreachable()

    def _named(self, failure: SecmonError) -> SecmonError:
        failure.nodes = {self.name: failure.message}
        return failure
