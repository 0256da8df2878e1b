"""What the requests of one node may take at a server, whatever gRPC itself would receive."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc import aio
from hypothesis import given
from hypothesis import strategies as st

from secmon.cluster.rpc import request_budget
from secmon.cluster.rpc.credentials import new_server
from secmon.cluster.rpc.flow_control import WINDOW_BYTES
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.request_budget import MAX_REQUEST_BYTES, NODE_BYTES, ByteBudget
from tests.cluster_kit import Slow
from tests.waiting import LIMIT_SECONDS, until

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def serving(service: Slow) -> AsyncIterator[aio.Channel]:
    server = new_server()
    service.add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    options = [("grpc.max_send_message_length", -1)]
    async with aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        yield channel
    await server.stop(None)


def message(size: int) -> bytes:
    return pb.RenewRequest(csr=bytes(size)).SerializeToString()


async def ask(channel: aio.Channel, size: int) -> None:
    await Slow.call(channel)(message(size))


def asked(channel: aio.Channel, size: int, count: int) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(ask(channel, size)) for _ in range(count)]


LARGE = MAX_REQUEST_BYTES - 1000


async def test_large_requests_are_received_in_turn() -> None:
    service, sent = Slow(), []

    async def send(channel: aio.Channel) -> object:
        call = channel.stream_unary(Slow.METHOD, None, None)(None)
        await call.write(message(LARGE))
        sent.append(call)
        await call.done_writing()
        return await call

    async with serving(service) as channel:
        calls = [asyncio.create_task(send(channel)) for _ in range(6)]
        await until(lambda: len(service.sizes) == 2)
        quick = asked(channel, 10, 5)
        await asyncio.wait(quick, timeout=0.3)
        assert (len(sent), len(service.sizes)) == (2, 2), "the rest is still at the sender"
        service.free.set()
        await asyncio.gather(*calls, *quick)
        assert len(service.sizes) == 11


async def test_small_requests_do_not_wait_for_a_large_one() -> None:
    service = Slow()
    async with serving(service) as channel:
        calls = asked(channel, LARGE, 1) + asked(channel, WINDOW_BYTES // 4, 100)
        await until(lambda: len(service.sizes) == 101)
        service.free.set()
        await asyncio.gather(*calls)


async def test_calls_beyond_their_number_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_budget, "CALLS_PER_NODE", 10)
    service = Slow()
    async with serving(service) as channel:
        calls = asked(channel, 1, 12)
        await until(lambda: sum(call.done() for call in calls) == 2)
        service.free.set()
        results = await asyncio.gather(*calls, return_exceptions=True)
    refused = [error for error in results if isinstance(error, aio.AioRpcError)]
    assert [error.code() for error in refused] == [grpc.StatusCode.RESOURCE_EXHAUSTED] * 2


async def test_cancelled_and_broken_requests_give_their_room_back() -> None:
    service = Slow()
    async with serving(service) as channel:
        for _ in range(3):
            waiting = asked(channel, LARGE, 4)
            await until(lambda: len(service.sizes) >= 2)
            for each in waiting:
                each.cancel()
            service.sizes.clear()
            with pytest.raises(aio.AioRpcError) as caught:
                await Slow.call(channel)(b"\xff" * 1000)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        service.free.set()
        await ask(channel, LARGE)


@given(st.lists(st.tuples(st.integers(0, NODE_BYTES), st.booleans()), max_size=30))
def test_a_budget_is_never_exceeded_and_nobody_waits_for_ever(wanted: list[tuple[int, bool]]) -> None:
    held = 0

    async def call(budget: ByteBudget, size: int) -> None:
        nonlocal held
        await budget.take(size)
        held += size
        assert held <= NODE_BYTES
        try:
            await asyncio.sleep(0)
        finally:
            held -= size
            budget.give(size)

    async def calls() -> None:
        budget = ByteBudget(NODE_BYTES)
        tasks = [asyncio.create_task(call(budget, size)) for size, _ in wanted]
        await asyncio.sleep(0)
        for task, (_, cancelled) in zip(tasks, wanted, strict=True):
            if cancelled:
                task.cancel()
        async with asyncio.timeout(LIMIT_SECONDS):
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert not [error for error in results if isinstance(error, Exception)]
            await budget.take(NODE_BYTES)

    asyncio.run(calls())
