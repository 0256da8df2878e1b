"""Calls of a worker that wait for the master."""

import asyncio

import pytest

from secmon.cluster.call import Call
from secmon.common.errors import SecmonError
from secmon.common.identity import local_identity
from secmon.operations.all import EXECUTABLE
from secmon.worker.forwarding import Master, MasterForwarder
from tests.operations.world import World
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def test_a_daemon_that_stops_ends_the_wait_for_the_master(cluster: World) -> None:
    node = cluster.nodes["beta"].node
    waiting = asyncio.Event()

    async def find_master(seconds: float) -> Master | None:
        waiting.set()
        await asyncio.sleep(seconds)
        return None

    forwarder = MasterForwarder(node, find_master, hold_seconds=3600)
    call = Call(operation=EXECUTABLE["POST /groups"], params=None, identity=local_identity(), request_id="r1")
    held = asyncio.create_task(forwarder.execute(call, part=False))
    await until(waiting.is_set)
    forwarder.refuse()
    with pytest.raises(SecmonError) as caught:
        await held
    assert (caught.value.code, list(caught.value.nodes)) == (3023, ["beta"])
