"""The table that says where a call runs is complete, and each process follows it."""

import pytest

from secmon.cluster.catalogue import Place
from secmon.cluster.coordinator import Coordinator, no_peer
from secmon.cluster.fan_out import CallLimits
from secmon.cluster.routing import DESTINATIONS, Destination, RoleRouter
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome, Plain
from secmon.operations.all import EXECUTABLE
from tests.operations.world import AnsweringPeer, World

pytestmark = pytest.mark.anyio

EXAMPLES = {
    Place.ANY: "GET /",
    Place.MASTER: "GET /cluster/nodes",
    Place.NODE: "GET /cluster/{node_id}/info",
    Place.NODES: "GET /cluster/api/config",
    Place.AGENT: "PUT /agents/reconnect",
    Place.MASTER_ONLY: "GET /manager/version/check",
}


def test_every_role_has_a_destination_for_every_place() -> None:
    assert {role: set(places) for role, places in DESTINATIONS.items()} == {role: set(Place) for role in DESTINATIONS}


@pytest.mark.parametrize("place", EXAMPLES, ids=lambda place: place.name)
async def test_api_processes_hand_on_what_the_table_says(cluster: World, place: Place) -> None:
    beta = cluster.nodes["beta"]
    assert EXECUTABLE[EXAMPLES[place]].place is place
    daemon = AnsweringPeer(Plain(message="from elsewhere"))
    params = {"node_id": "beta"} if place is Place.NODE else {}
    call = cluster.call(EXAMPLES[place], "admin", params, on=beta)
    result = await RoleRouter("api", beta.executor, forward_to=daemon).route(call)
    forwarded = DESTINATIONS["api"][place] is Destination.FORWARD
    assert (isinstance(result, Plain) and result.message == "from elsewhere") is forwarded
    assert daemon.calls == [call] * forwarded


async def test_a_worker_answers_for_itself_only(cluster: World) -> None:
    beta = cluster.nodes["beta"]
    master = AnsweringPeer(Outcome(items=["from the master"]))
    router = RoleRouter(
        "worker",
        beta.executor,
        coordinator=Coordinator(beta.executor, no_peer, limits=CallLimits(per_node=4, total=4)),
        forward_to=master,
    )
    for name, asked in (("beta", 0), ("alpha", 1), ("nowhere", 2)):
        await router.route(cluster.call("GET /cluster/{node_id}/info", "admin", {"node_id": name}, on=beta))
        assert len(master.calls) == asked


async def test_workers_refuse_what_only_masters_answer(cluster: World) -> None:
    beta = cluster.nodes["beta"]
    with pytest.raises(SecmonError, match="902"):
        await beta.router.route(cluster.call(EXAMPLES[Place.MASTER_ONLY], "admin", {}, on=beta))
