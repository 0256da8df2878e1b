"""Slow requests of all nodes in one list."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec import structs

from secmon.cluster.slow_requests import SlowRequest, Spent
from secmon.common.errors import SecmonError
from secmon.common.identity import local_identity
from secmon.common.outcome import Outcome
from secmon.operations.all import EXECUTABLE
from tests.operations.world import AnsweringPeer, World

pytestmark = pytest.mark.anyio


def slow(world: World, node: str, seconds: float) -> SlowRequest:
    return SlowRequest(
        time=world.clock.now() - timedelta(seconds=seconds), id=node, seconds=seconds, operation="get_agents",
        method="GET", path="/agents", status=200, user="ada", client="10.0.0.9", node=node,
        spent=[Spent(node, "store", seconds)],
    )  # fmt: skip


@pytest.fixture
def three(tmp_path: Path, security_db: Path) -> Iterator[World]:
    world = World(tmp_path, security_db, catalogue=EXECUTABLE)
    for name, seconds in (("alpha", 2.0), ("beta", 3.0), ("gamma", 1.5)):
        world.start(name).control.slow = [slow(world, name, seconds)]
    yield world
    world.close()


async def asked(world: World, at: str, limit: int = 20) -> Outcome:
    running = world.nodes[at]
    call = world.call("GET /internal/slow-requests", "admin", {"limit": limit}, on=running)
    result = await running.router.route(structs.replace(call, identity=local_identity()))
    assert isinstance(result, Outcome)
    return result


@pytest.mark.parametrize("at", ["alpha", "beta"])
async def test_the_slowest_of_all_nodes_first(three: World, at: str) -> None:
    found = await asked(three, at)
    assert [each.node for each in found.items] == ["beta", "alpha", "gamma"]
    assert (found.count, found.node_errors) == (3, {})
    assert (await asked(three, at, limit=1)).count == 1


async def test_nodes_that_do_not_answer_or_answer_nonsense_are_named(three: World) -> None:
    three.peers["beta"] = AnsweringPeer(SecmonError(3021, ids=("beta",)))
    three.peers["gamma"] = AnsweringPeer(Outcome(items=[{"seconds": "many"}]))
    found = await asked(three, "alpha")
    assert [each.node for each in found.items] == ["alpha"]
    assert sorted(found.node_errors) == ["beta", "gamma"]
