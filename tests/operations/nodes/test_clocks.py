"""Which nodes answer the master, and what their clocks show."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from secmon.common.errors import SecmonError
from secmon.common.identity import local_identity
from secmon.common.outcome import Outcome
from secmon.operations.all import EXECUTABLE
from tests.operations.world import AnsweringPeer, World

pytestmark = pytest.mark.anyio


@pytest.fixture
def four(tmp_path: Path, security_db: Path) -> Iterator[World]:
    world = World(tmp_path, security_db, catalogue=EXECUTABLE)
    for name in ("alpha", "beta", "gamma", "delta"):
        world.start(name)
    world.membership.gone.append("omega")
    yield world
    world.close()


@pytest.mark.parametrize("at", ["alpha", "beta"])
async def test_clocks_are_compared_with_the_masters(four: World, at: str) -> None:
    ahead = four.clock.now().timestamp() + 5
    four.peers["gamma"] = AnsweringPeer(Outcome(items=[ahead]))
    four.peers["delta"] = AnsweringPeer(SecmonError(3021, ids=("delta",)))
    running = four.nodes[at]
    call = four.call("GET /internal/clocks", "admin", {}, on=running)
    result = await running.router.route(structs.replace(call, identity=local_identity()))
    assert isinstance(result, Outcome)
    assert {each.node: each.ahead for each in result.items} == {"alpha": 0, "beta": 0, "gamma": 5}
    assert sorted(result.node_errors) == ["delta", "omega"]
