"""``/cluster`` (cluster.md 6)."""

from typing import Any

import pytest
from msgspec import structs

from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome, Plain
from secmon.config.as_json import MASK
from tests.operations.world import StuckPeer, World

pytestmark = pytest.mark.anyio

NODES = "GET /cluster/nodes"
VALIDATION = "GET /cluster/configuration/validation"
SYNCHRONIZATION = "GET /cluster/ruleset/synchronization"


async def names(world: World, name: str = NODES, user: str = "admin", /, **params: Any) -> list[str]:
    items = (await world.outcome(name, user, **params)).items
    return [item["info"]["name"] if "info" in item else item["name"] for item in items]


def codes(body: dict[str, Any]) -> dict[int, list[Any]]:
    return {one["error"]["code"]: one["id"] for one in body["data"]["failed_items"]}


async def test_the_node_asked_describes_itself(cluster: World) -> None:
    assert (await cluster.outcome("GET /cluster/local/info", at="beta")).items == [
        {"node": "beta", "cluster": "eu", "type": "worker"}
    ]
    (config,) = (await cluster.outcome("GET /cluster/local/config", at="beta")).items
    assert (config["node_name"], config["key"], config["disabled"], config["hidden"]) == ("beta", MASK, False, "no")


async def test_status(cluster: World) -> None:
    assert await cluster.run("GET /cluster/status") == Plain(data={"enabled": "yes", "running": "yes"})
    cluster.nodes["alpha"].control.states["secmon-clusterd"] = "stopped"
    assert await cluster.run("GET /cluster/status") == Plain(data={"enabled": "yes", "running": "no"})


class FixedMastership:
    """What is known of the term; None: ``secmon-leaderd`` does not run."""

    def __init__(self, shown: dict[str, Any] | None) -> None:
        self.shown = shown

    async def mastership(self) -> dict[str, Any]:
        if self.shown is None:
            raise SecmonError(1121)
        return self.shown


async def test_who_is_master_by_the_store_of_record(cluster: World) -> None:
    services = cluster.nodes["alpha"].node.services
    shown = {"term": 5, "holder": "alpha", "since": "2026-03-05T10:00:00Z", "reason": "beta was stopped"}
    services.mastership = FixedMastership(shown)
    expected = Plain(data={"enabled": "yes", "running": "yes", "mastership": shown})
    assert await cluster.run("GET /cluster/status") == expected
    items = (await cluster.outcome("GET /cluster/healthcheck", at="beta")).items
    assert [item.get("mastership") for item in items] == [shown, None, None]
    services.mastership = FixedMastership(None)
    assert await cluster.run("GET /cluster/status") == Plain(data={"enabled": "yes", "running": "yes"})


async def test_without_a_cluster(alone: World) -> None:
    assert await alone.run("GET /cluster/status") == Plain(data={"enabled": "no", "running": "no"})
    for name in (NODES, "GET /cluster/healthcheck"):
        with pytest.raises(SecmonError) as caught:
            await alone.run(name)
        assert (caught.value.code, caught.value.kind.status) == (3013, 400)


@pytest.mark.parametrize("at", ["alpha", "beta"])
async def test_nodes_in_the_order_they_connected(cluster: World, at: str) -> None:
    outcome = await cluster.outcome(NODES, at=at)
    assert outcome.items[1] == {"name": "beta", "type": "worker", "version": "4.8.2", "ip": "10.9.0.2"}
    assert [item["name"] for item in outcome.items] == ["alpha", "beta", "gamma"]
    assert outcome.total == 3


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"sort": "-name"}, ["gamma", "beta", "alpha"]),
        ({"sort": "-type,name"}, ["gamma", "beta", "alpha"]),
        ({"offset": 1}, ["beta", "gamma"]),
        ({"offset": 1, "limit": 1}, ["beta"]),
        ({"offset": 9}, []),
        ({"type": "worker"}, ["beta", "gamma"]),
        ({"q": "type=worker;name!=beta"}, ["gamma"]),
        ({"q": "name=alpha,name=gamma"}, ["alpha", "gamma"]),
        ({"q": "ip~0.2"}, ["beta"]),
        ({"q": "key=x"}, []),
        ({"search": "alp"}, ["alpha"]),
        ({"search": "-alp"}, ["beta", "gamma"]),
        ({"nodes_list": ["gamma", "alpha"], "sort": "name"}, ["alpha", "gamma"]),
    ],
)
async def test_selection_of_nodes(cluster: World, params: dict[str, Any], expected: list[str]) -> None:
    assert await names(cluster, **params) == expected
    assert await names(cluster, at="gamma", **params) == expected


async def test_totals_count_before_paging(cluster: World) -> None:
    outcome = await cluster.outcome(NODES, limit=1, type="worker")
    assert (len(outcome.items), outcome.total) == (1, 2)


async def test_distinct_rows(cluster: World) -> None:
    outcome = await cluster.outcome(NODES, select=["type"], distinct=True)
    assert outcome.items == [{"type": "master"}, {"type": "worker"}]
    assert outcome.total == 2


@pytest.mark.parametrize(
    ("params", "code"),
    [({"select": ["key"]}, 1724), ({"sort": "key"}, 1403), ({"q": "name"}, 1407)],
)
async def test_fields_that_nodes_do_not_have(cluster: World, params: dict[str, Any], code: int) -> None:
    with pytest.raises(SecmonError) as caught:
        await cluster.run(NODES, **params)
    assert (caught.value.code, caught.value.kind.status) == (code, 400)


async def test_nodes_that_are_not_connected_fail_by_name(cluster: World) -> None:
    body = await cluster.body(NODES, nodes_list=["beta", "zz", "delta"])
    assert [item["name"] for item in body["data"]["affected_items"]] == ["beta"]
    assert codes(body) == {1730: ["delta", "zz"]}
    assert body["error"] == 2


async def test_an_unknown_node_is_a_failed_item(cluster: World) -> None:
    for name in ("logs", "status", "info", "configuration", "logs/summary"):
        body = await cluster.body(f"GET /cluster/{{node_id}}/{name}", node_id="zz")
        assert (codes(body), body["error"]) == ({1730: ["zz"]}, 1)
        assert "dapi_errors" not in body


async def test_an_absent_node_is_named_as_such(cluster: World) -> None:
    body = await cluster.body("GET /cluster/{node_id}/info", node_id="delta")
    assert codes(body) == {1730: ["delta"]}
    assert list(body["dapi_errors"]) == ["delta"]


async def test_a_node_that_one_may_not_read(cluster: World) -> None:
    for at in ("alpha", "beta", "gamma"):
        with pytest.raises(SecmonError, match="node:id") as caught:
            await cluster.run("GET /cluster/{node_id}/info", "alpha_only", node_id="beta", at=at)
        assert (caught.value.code, caught.value.kind.status) == (4000, 403)


async def test_a_node_that_one_may_not_read_is_not_listed(cluster: World) -> None:
    body = await cluster.body(NODES, "alpha_only")
    assert [item["name"] for item in body["data"]["affected_items"]] == ["alpha", "gamma"]
    assert (body["error"], codes(body)) == (0, {})
    assert await names(cluster, "GET /cluster/healthcheck", "alpha_only") == ["alpha", "gamma"]


async def test_of_the_nodes_named_those_permitted_answer(cluster: World) -> None:
    body = await cluster.body(VALIDATION, "alpha_only", nodes_list=["alpha", "beta"])
    assert body["data"]["affected_items"] == [{"name": "alpha", "status": "OK"}]
    assert (codes(body), body["error"]) == ({4000: ["beta"]}, 2)
    with pytest.raises(SecmonError) as caught:
        await cluster.run(VALIDATION, "alpha_only", nodes_list=["beta"])
    assert caught.value.code == 4000


async def test_an_absent_node_costs_its_share_only(cluster: World) -> None:
    for name in (VALIDATION, "GET /cluster/api/config", SYNCHRONIZATION, "PUT /cluster/restart"):
        body = await cluster.body(name)
        assert body["data"]["total_affected_items"] == 3
        assert codes(body) == {3022: ["delta"]}
        assert list(body["dapi_errors"]) == ["delta"]
        assert body["error"] == 2


async def test_a_silent_node_costs_its_share_only(cluster: World) -> None:
    cluster.peers["beta"] = stuck = StuckPeer()
    alpha = cluster.nodes["alpha"]
    call = cluster.call(VALIDATION, "admin", {"nodes_list": ["alpha", "beta", "gamma"]}, on=alpha)
    outcome = await alpha.router.route(structs.replace(call, deadline=cluster.clock.monotonic() + 1.0))
    assert isinstance(outcome, Outcome)
    assert [item["name"] for item in outcome.items] == ["alpha", "gamma"]
    assert list(outcome.node_errors) == ["beta"]
    assert stuck.cancelled == 1


async def test_health(cluster: World) -> None:
    items = (await cluster.outcome("GET /cluster/healthcheck", at="beta")).items
    assert [item["info"]["name"] for item in items] == ["alpha", "beta", "gamma"]
    assert ["status" in item for item in items] == [False, True, True]
    assert await names(cluster, "GET /cluster/healthcheck", nodes_list=["gamma", "beta"]) == ["beta", "gamma"]


async def test_health_of_an_unknown_node_is_nothing(cluster: World) -> None:
    body = await cluster.body("GET /cluster/healthcheck", nodes_list=["zz"])
    assert (body["data"]["affected_items"], codes(body), body["error"]) == ([], {}, 0)


async def test_ruleset_synchronization_compares_with_the_master(cluster: World) -> None:
    cluster.nodes["gamma"].digests.found["etc/lists/extra"] = "11"
    cluster.nodes["beta"].digests.found["etc/shared/default/agent.conf"] = "22"  # no part of the ruleset
    outcome = await cluster.outcome(SYNCHRONIZATION, nodes_list=["gamma", "beta", "alpha"], at="beta")
    assert outcome.items == [
        {"name": "alpha", "synced": True},
        {"name": "beta", "synced": True},
        {"name": "gamma", "synced": False},
    ]


async def test_a_worker_without_its_master_answers_what_it_can(cluster: World) -> None:
    del cluster.membership.connected[0]
    assert (await cluster.outcome("GET /cluster/{node_id}/info", node_id="beta", at="beta")).items
    assert (await cluster.outcome("GET /manager/info", at="beta")).items
    with pytest.raises(SecmonError) as caught:
        await cluster.run(NODES, at="beta")
    assert (caught.value.code, list(caught.value.nodes)) == (3023, ["beta"])
