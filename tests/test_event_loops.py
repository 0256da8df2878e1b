"""What gRPC completes after the end of a test's loop is dropped, and nothing else is."""

import asyncio

import pytest
from grpc import ChannelConnectivity, aio

from tests.event_loops import ASYNCIO, UVLOOP, Backend
from tests.waiting import until


@pytest.fixture(params=[ASYNCIO, UVLOOP], ids=["asyncio", "uvloop"])
def backend(request: pytest.FixtureRequest) -> Backend:
    return request.param  # type: ignore[no-any-return]


async def _leave_a_wait() -> tuple[aio.Channel, asyncio.Task[None]]:
    channel = aio.insecure_channel("127.0.0.1:1")
    waiting = asyncio.create_task(channel.wait_for_state_change(ChannelConnectivity.IDLE))
    await asyncio.sleep(0)
    return channel, waiting


async def _end_it_and_call(channel: aio.Channel) -> None:
    await until(lambda: channel.get_state(try_to_connect=True) is not ChannelConnectivity.IDLE)
    async with aio.insecure_channel("127.0.0.1:1") as other:
        with pytest.raises(aio.AioRpcError):
            await other.unary_unary("/numbers/get", bytes, bytes)(b"")


def test_what_grpc_completes_late_disturbs_no_other_loop(backend: Backend) -> None:
    make = backend[1]["loop_factory"]
    ended, running = make(), make()
    disturbances: list[dict[str, object]] = []
    running.set_exception_handler(lambda _, context: disturbances.append(context))
    channel, waiting = ended.run_until_complete(_leave_a_wait())
    ended.close()
    running.run_until_complete(_end_it_and_call(channel))
    running.close()
    assert (disturbances, waiting.done()) == ([], False)


def test_others_are_told_that_a_loop_is_closed(backend: Backend) -> None:
    loop = backend[1]["loop_factory"]()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon_threadsafe(print)
