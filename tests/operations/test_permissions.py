"""Who may run which operation: every operation with requirements, for every kind of caller."""

from typing import Any

import msgspec
import pytest

from secmon.cluster.catalogue import Operation, Place
from secmon.common.errors import SecmonError
from secmon.operations.all import AREAS, CATALOGUE
from tests.operations.world import World

pytestmark = pytest.mark.anyio

MINE = ("nodes.manager", "nodes.logs", "nodes.cluster", "nodes.upload", "security.login")
"""Modules under test here; the operations on users, roles and agents have tests of their own."""

OPERATIONS = [
    one for one in CATALOGUE
    if one.require and one.function.__module__.removeprefix("secmon.operations.") in MINE
]  # fmt: skip


def params_of(operation: Operation, world: World) -> dict[str, Any]:
    """Values with which an administrator would succeed."""
    params: dict[str, Any] = {}
    if "{node_id}" in operation.path:
        params["node_id"] = "beta"
    if operation.body is not None:
        is_file = operation.body_type == "application/octet-stream"
        params["body"] = world.nodes["beta"].node.paths.main_config.read_bytes() if is_file else {"rbac_mode": "white"}
    return params


def write_logs(world: World) -> None:
    for running in world.nodes.values():
        (running.node.paths.logs / "ossec.log").write_text("2026/01/02 10:00:00 secmon-apid: INFO: x\n")


def test_the_modules_are_all_there() -> None:
    assert set(MINE) <= {area.__name__.removeprefix("secmon.operations.") for area in AREAS}
    assert len(OPERATIONS) >= 25


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
async def test_a_user_without_rights_is_refused_or_sees_nothing(cluster: World, operation: Operation) -> None:
    write_logs(cluster)
    before = [one.paths.main_config.stat().st_ino for one in (running.node for running in cluster.nodes.values())]
    params = params_of(operation, cluster)
    if operation.require[0].mode == "each":
        # Nothing was named, so there is nothing to refuse.
        body = await cluster.body(operation.name, "nobody", **params)
        assert (body["data"]["affected_items"], body["data"]["failed_items"]) == ([], [])
        assert "dapi_errors" not in body
        params["nodes_list"] = ["beta"]
    for at in ("alpha", "beta"):
        with pytest.raises(SecmonError) as caught:
            await cluster.run(operation.name, "nobody", at=at, **params)
        assert (caught.value.code, caught.value.kind.status) == (4000, 403)
    assert [one.node.paths.main_config.stat().st_ino for one in cluster.nodes.values()] == before
    assert [one.control.restarts for one in cluster.nodes.values()] == [0, 0, 0]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
async def test_an_administrator_succeeds(cluster: World, operation: Operation) -> None:
    write_logs(cluster)
    cluster.roster.gone.clear()
    body = await cluster.body(operation.name, **params_of(operation, cluster))
    assert body["error"] == 0
    if operation.item is not None:
        assert body["data"]["affected_items"]
        assert body["message"] == operation.messages.all
        for item in body["data"]["affected_items"]:
            check_shape(item, operation.item)
    if operation.data is not None:
        check_shape(body["data"], operation.data)


def check_shape(value: Any, declared: Any) -> None:
    """``value`` is what the API documents: no member missing, mistyped or undocumented."""
    msgspec.convert(value, declared)
    if isinstance(declared, type) and issubclass(declared, msgspec.Struct):
        assert set(value) <= {field.encode_name for field in msgspec.structs.fields(declared)}


MANAGER = [one for one in OPERATIONS if one.area == "manager"]
NODE = [one for one in OPERATIONS if one.area == "cluster" and one.place in (Place.NODE, Place.NODES)]


@pytest.mark.parametrize("user", ["manager_only", "cluster_only"])
@pytest.mark.parametrize("operation", MANAGER, ids=lambda one: one.name)
async def test_either_family_of_permissions_opens_the_manager(cluster: World, operation: Operation, user: str) -> None:
    write_logs(cluster)
    body = await cluster.body(operation.name, user, **params_of(operation, cluster))
    assert body["error"] == 0
    assert body["data"]["affected_items"]


@pytest.mark.parametrize("operation", NODE, ids=lambda one: one.name)
async def test_only_cluster_permissions_open_other_nodes(cluster: World, operation: Operation) -> None:
    write_logs(cluster)
    params = params_of(operation, cluster) | ({"nodes_list": ["beta"]} if operation.place is Place.NODES else {})
    assert (await cluster.body(operation.name, "cluster_only", **params))["error"] == 0
    with pytest.raises(SecmonError) as caught:
        await cluster.run(operation.name, "manager_only", **params)
    assert caught.value.code == 4000


@pytest.mark.parametrize("operation", MANAGER, ids=lambda one: one.name)
async def test_a_grant_on_another_node_does_not_open_this_one(cluster: World, operation: Operation) -> None:
    write_logs(cluster)
    with pytest.raises(SecmonError) as caught:
        await cluster.run(operation.name, "alpha_only", at="beta", **params_of(operation, cluster))
    assert caught.value.code == 4000
