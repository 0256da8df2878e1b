"""How much memory the requests of one node may take at a server.

gRPC bounds one message and the calls of one connection, not what they take together: it receives a message as soon as
its handler asks for it. Here a handler asks when the budget of the node has room for the largest message. What the
message does not need is given back at once, the rest when the call is over. To ask by itself, a handler gets each
request as a stream of one message, which is the same on the wire. A node is known by its certificate, so it has one
budget for all its connections, and waits for its own requests only.
"""

import asyncio
import traceback
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, cast

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from secmon.cluster.rpc.certificates import identity_of
from secmon.common.errors import SecmonError

MAX_REQUEST_BYTES = 20 * 1024 * 1024
"""Of a message that a server receives: an upload travels whole, everything else large is streamed."""
NODE_BYTES = 2 * MAX_REQUEST_BYTES + 16 * 1024 * 1024
"""Of all requests of one node that are received or worked on: beside a large one there is room for many small ones."""
CALLS_PER_NODE = 640
"""At once; gRPC holds up to ``flow_control.WINDOW_BYTES`` of each that waits for its turn."""
STREAMS_PER_NODE = 2
"""Sessions at once: the present one and its successor."""

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context = aio.ServicerContext[Any, Any]


class ByteBudget:
    """A number of bytes that calls take and give back. Who waits gets them in the order of arrival."""

    def __init__(self, capacity: int) -> None:
        self._free = capacity
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> None:
        """Wait for ``size`` bytes. A call that is cancelled meanwhile has taken none."""
        if not self._waiting and size <= self._free:
            self._free -= size
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self.give(0)
            else:
                self.give(size)
            raise

    def give(self, size: int) -> None:
        """Give back ``size`` bytes."""
        self._free += size
        while self._waiting:
            wanted, turn = self._waiting[0]
            if turn.done():  # its call was cancelled
                self._waiting.popleft()
            elif wanted <= self._free:
                self._waiting.popleft()
                self._free -= wanted
                turn.set_result(None)
            else:
                return


@dataclass
class _NodeRequests:
    """What one node has under way."""

    budget: ByteBudget = field(default_factory=partial(ByteBudget, NODE_BYTES))
    calls: int = 0
    streams: list[asyncio.Event] = field(default_factory=list)
    """The ends of its sessions, the oldest first."""


class _Request:
    """A message, with room for the largest one until it is received."""

    def __init__(self, room: int) -> None:
        self.size = room
        self.message: Any = None
        self.refusal: tuple[grpc.StatusCode, str] | None = None

    async def receive(self, context: Context, decode: Callable[[bytes], Any] | None, limit: int) -> None:
        """Read and decode; sets ``size``, and ``message`` or ``refusal``."""
        received = await context.read()  # not from the iterator of the handler, which keeps the last message
        data = received if isinstance(received, bytes) else b""
        self.size = len(data)
        assert decode is not None
        if self.size > limit:
            text = f"a request of {self.size} bytes, {limit} are allowed"
            self.refusal = grpc.StatusCode.RESOURCE_EXHAUSTED, text
            return
        try:
            self.message = decode(data)
        except DecodeError:
            self.refusal = grpc.StatusCode.INVALID_ARGUMENT, "the request cannot be decoded"


class RequestBudget(aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Receives the requests of each node within :data:`NODE_BYTES`, and no more than it may make at once.

    Refused requests are answered with RESOURCE_EXHAUSTED.
    """

    def __init__(self, limits: Mapping[str, int], largest: int = MAX_REQUEST_BYTES) -> None:
        """``limits``: bytes of a request by the full name of its method (``/package.Service/Method``), checked before
        it is decoded: a message of many small parts takes a hundred times its bytes in memory.

        ``largest``: bytes of a message that the server receives. Callers without a certificate are one node, so the
        smaller it is, the more of them are heard beside those that send nothing.
        """
        self._limits, self._largest = limits, largest
        self._nodes: dict[str, _NodeRequests] = {}

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]], details: grpc.HandlerCallDetails
    ) -> Handler:
        """The handler of the method, within the budget."""
        handler = await continuation(details)
        if handler is None:
            return handler
        if handler.request_streaming:
            return self._session(handler)
        limit = self._limits.get(details.method, self._largest)
        return (self._streaming if handler.response_streaming else self._single)(handler, limit)

    def _single(self, handler: Handler, limit: int) -> Handler:
        answer = cast(Callable[[Any, Context], Awaitable[Any]], handler.unary_unary)

        async def respond(messages: AsyncIterator[bytes], context: Context) -> Any:
            async with self._received(handler, limit, messages, context) as request:
                return await answer(request.message, context)

        return grpc.stream_unary_rpc_method_handler(cast(Any, respond), None, handler.response_serializer)

    def _streaming(self, handler: Handler, limit: int) -> Handler:
        # The stubs know the generators of threaded servers only.
        answer = cast(Callable[[Any, Context], AsyncIterator[Any]], handler.unary_stream)

        async def respond(messages: AsyncIterator[bytes], context: Context) -> AsyncIterator[Any]:
            async with self._received(handler, limit, messages, context) as request:
                async for message in answer(request.message, context):
                    yield message

        return grpc.stream_stream_rpc_method_handler(cast(Any, respond), None, handler.response_serializer)

    def _session(self, handler: Handler) -> Handler:
        """A handler that reads a stream and writes to its context. gRPC may hold one message for each of them."""
        serve = cast(Callable[[AsyncIterator[Any], Context], Awaitable[None]], handler.stream_stream)

        async def respond(messages: AsyncIterator[Any], context: Context) -> None:
            with self._node(context) as node:
                if len(node.streams) >= STREAMS_PER_NODE:  # the first one may be open, the latest has replaced the rest
                    node.streams[-1].set()
                ended = asyncio.Event()
                node.streams.append(ended)
                try:
                    await serve(_until(ended, messages), context)
                finally:
                    node.streams.remove(ended)

        return grpc.stream_stream_rpc_method_handler(
            cast(Any, respond), handler.request_deserializer, handler.response_serializer
        )

    @asynccontextmanager
    async def _received(
        self, handler: Handler, limit: int, messages: AsyncIterator[bytes], context: Context
    ) -> AsyncIterator["_Request"]:
        """The decoded request; the call ends with the block."""
        with self._node(context) as node:
            if node.calls > CALLS_PER_NODE:
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"more than {CALLS_PER_NODE} calls at once")
            await node.budget.take(self._largest)
            request = _Request(self._largest)
            try:
                await request.receive(context, handler.request_deserializer, limit)
                node.budget.give(self._largest - request.size)
                if request.refusal:
                    await context.abort(*request.refusal)
                yield request
            except BaseException as error:
                traceback.clear_frames(error.__traceback__)  # gRPC keeps the error until the client is gone
                raise
            finally:
                request.message = None
                node.budget.give(request.size)

    @contextmanager
    def _node(self, context: Context) -> Iterator[_NodeRequests]:
        """What the caller has under way, this call included."""
        name = _name(context)
        node = self._nodes.setdefault(name, _NodeRequests())
        node.calls += 1
        try:
            yield node
        finally:
            node.calls -= 1
            if not node.calls:
                del self._nodes[name]


def _name(context: Context) -> str:
    """The node that the caller's certificate names; empty for callers without a certificate of a node."""
    certificate = context.auth_context().get("x509_pem_cert")
    with suppress(SecmonError):
        return identity_of(next(iter(certificate))).name if certificate else ""
    return ""


async def _until(ended: asyncio.Event, messages: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """``messages`` as they come, until they or ``ended`` end."""
    ending = asyncio.create_task(ended.wait())
    try:
        while True:
            reading = asyncio.ensure_future(anext(messages))
            try:
                await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    return
                yield reading.result()
            except StopAsyncIteration:
                return
            finally:
                reading.cancel()
    finally:
        ending.cancel()
