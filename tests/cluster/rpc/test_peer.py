"""Calls between nodes over gRPC: in one message, as a stream, and with a node of an earlier version."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
from grpc import aio
from msgspec import structs

from secmon.cluster.call import Call
from secmon.cluster.catalogue import Catalogue, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Listing
from secmon.cluster.rpc.call_service import CallService
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.peer import EXECUTE, SERVICE, PeerService, RemotePeer
from secmon.cluster.rpc.wire import ITEMS_PER_CHUNK, LARGE_PAGE, pack_result
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.common.identity import node_identity
from secmon.common.outcome import Outcome, Plain, Result
from secmon.security.authentication_error import NO_TOKEN, AuthenticationError
from tests.waiting import until

pytestmark = pytest.mark.anyio

CATALOGUE = Catalogue()


@operation("GET", "/numbers", params=Listing, catalogue=CATALOGUE)
async def numbers(ctx: Context, params: Listing) -> Plain:
    """What :class:`OtherNode` answers instead."""
    return Plain()


@operation("PUT", "/numbers", params=Listing, catalogue=CATALOGUE)
async def change(ctx: Context, params: Listing) -> Plain:
    """As :func:`numbers`."""
    return Plain()


class OtherNode:
    """A node that answers ``limit`` numbers, and the methods by which it was asked."""

    channel: aio.Channel

    def __init__(self) -> None:
        self.methods: list[str] = []
        self.answer: Result | Exception | None = None
        self.waiting = self.cancelled = 0
        self.released = asyncio.Event()
        self.released.set()

    async def run(self, call: Call) -> Result:
        self.waiting += 1
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.waiting -= 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return Outcome(items=list(range(call.params.limit)), total=call.params.limit)

    def authorize(self, context: "aio.ServicerContext[pb.ExecuteRequest, bytes]", call: Call) -> Call:
        return structs.replace(call, node="by its certificate")

    async def intercept_service(self, continuation, details):  # type: ignore[no-untyped-def]
        """Notes the method of each call."""
        self.methods.append(details.method.rpartition("/")[2])
        return await continuation(details)


class Observed(OtherNode, aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """An :class:`OtherNode` that sees the methods of the calls."""


@pytest.fixture
async def other() -> AsyncIterator[tuple[Observed, RemotePeer]]:
    node, clock = Observed(), SystemClock()
    server = aio.server(interceptors=[node])
    service = CallService("n2", CATALOGUE, whole=node.run, part=node.run)
    PeerService(service, clock=clock, authorize=node.authorize).add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        node.channel = channel
        yield node, RemotePeer("n2", channel, clock)
    await server.stop(None)


def call(limit: int = 3, seconds: float | None = 20, method: str = "GET") -> Call:
    deadline = None if seconds is None else SystemClock().monotonic() + seconds
    return Call(
        operation=CATALOGUE[f"{method} /numbers"], params=Listing(limit=limit), identity=node_identity(),
        request_id="r1", deadline=deadline,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "method"),
    [(3, "Call"), (ITEMS_PER_CHUNK + 1, "Call"), (LARGE_PAGE, "Call"), (LARGE_PAGE + 1, "Execute")],
)
async def test_large_pages_are_streamed_others_are_one_message(
    other: tuple[Observed, RemotePeer], limit: int, method: str
) -> None:
    node, peer = other
    assert await peer.execute(call(limit), part=False) == Outcome(items=list(range(limit)), total=limit)
    assert node.methods == [method]


@pytest.mark.parametrize("limit", [1, LARGE_PAGE + 1], ids=["one message", "stream"])
async def test_errors_deadlines_and_cancellation_cross(other: tuple[Observed, RemotePeer], limit: int) -> None:
    node, peer = other
    node.answer = SecmonError(3022, ids=("n9",), nodes={"n9": "gone"})
    with pytest.raises(SecmonError) as caught:
        await peer.execute(call(limit), part=True)
    assert (caught.value.code, caught.value.ids, caught.value.nodes) == (3022, ("n9",), {"n9": "gone"})
    node.answer = AuthenticationError(NO_TOKEN)
    with pytest.raises(AuthenticationError):
        await peer.execute(call(limit), part=False)
    node.released.clear()
    with pytest.raises(SecmonError) as caught:
        await peer.execute(call(limit, seconds=0.1), part=False)
    assert (caught.value.code, list(caught.value.nodes)) == (3021, ["n2"])
    await until(lambda: node.cancelled == 1)
    asked = asyncio.create_task(peer.execute(call(limit), part=False))
    await until(lambda: node.waiting == 1)
    asked.cancel()
    await until(lambda: node.cancelled == 2)


async def test_a_node_of_an_earlier_version_is_asked_for_a_stream() -> None:
    asked = []

    async def execute(request: pb.ExecuteRequest, _: object) -> AsyncIterator[bytes]:
        asked.append(request.operation)
        for chunk in pack_result(Plain(message="an old node")):
            yield chunk

    handler = grpc.unary_stream_rpc_method_handler(execute, pb.ExecuteRequest.FromString)
    server = aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {EXECUTE: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        answer = await RemotePeer("n2", channel, SystemClock()).execute(call(), part=False)
    await server.stop(None)
    assert (answer, asked) == (Plain(message="an old node"), ["GET /numbers"])


@pytest.mark.parametrize("limit", [1, LARGE_PAGE + 1], ids=["one message", "stream"])
async def test_a_node_that_is_not_there_is_named(limit: int) -> None:
    async with aio.insecure_channel("127.0.0.1:1") as channel:
        with pytest.raises(SecmonError) as caught:
            await RemotePeer("n2", channel, SystemClock()).execute(call(limit), part=False)
    assert (caught.value.code, list(caught.value.nodes)) == (3022, ["n2"])


@pytest.mark.parametrize(("method", "whole", "code"), [("GET", True, 3022), ("PUT", True, 3052), ("PUT", False, 3022)])
async def test_a_channel_that_is_closed_under_a_call(
    other: tuple[Observed, RemotePeer], method: str, whole: bool, code: int
) -> None:
    node, _ = other
    node.released.clear()
    peer = RemotePeer("n2", node.channel, SystemClock(), whole=whole)
    asked = asyncio.create_task(peer.execute(call(method=method), part=False))
    await until(lambda: node.waiting == 1)
    await node.channel.close(None)
    with pytest.raises(SecmonError) as caught:
        await asked
    assert (caught.value.code, list(caught.value.nodes)) == (code, ["n2"])
    with pytest.raises(SecmonError) as caught:
        await peer.execute(call(method=method), part=False)
    assert caught.value.code == 3022, "it was not sent"


async def test_a_channel_that_is_closed_gives_calls_time_to_finish(other: tuple[Observed, RemotePeer]) -> None:
    node, peer = other
    node.released.clear()
    asked = asyncio.create_task(peer.execute(call(), part=False))
    await until(lambda: node.waiting == 1)
    closing = asyncio.create_task(node.channel.close(60))
    await asyncio.sleep(0)
    node.released.set()
    assert isinstance(await asked, Outcome)
    await closing


async def test_a_service_that_refuses_has_not_begun() -> None:
    node = OtherNode()
    service = CallService("n2", CATALOGUE, whole=node.run, part=node.run)
    service.refuse()
    request = pb.ExecuteRequest(operation="PUT /numbers")
    [chunk] = [pb.ExecuteChunk.FromString(one) async for one in service.answer(request, None)]
    assert chunk.failure.code == 3012
