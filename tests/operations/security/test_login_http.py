"""The area over HTTP: statuses, problem documents, and the life of a user from creation to logout."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from secmon.api.server import ApiServer
from secmon.cluster.catalogue import CATALOGUE
from tests.api.toys import LocalRouter, api_config
from tests.operations.world import PASSWORD, World

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(alone: World) -> AsyncIterator[httpx.AsyncClient]:
    """An administrator at a server of the real catalogue."""
    node = alone.nodes["manager"].node
    node.api_config = api_config()
    server = ApiServer(node, LocalRouter(node, CATALOGUE), CATALOGUE)
    server.bind()
    await server.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
            await log_in(client, "admin", PASSWORD)
            yield client
    finally:
        await server.stop(grace=1.0)


async def log_in(client: httpx.AsyncClient, user: str, password: str) -> None:
    """Further requests carry the user's token."""
    answer = await client.post("/security/user/authenticate?raw=true", auth=(user, password))
    assert answer.status_code == 200, answer.text
    client.headers["Authorization"] = f"Bearer {answer.text}"


async def created(client: httpx.AsyncClient, kind: str, body: dict[str, Any]) -> int:
    """The id of an object made."""
    answer = await client.post(f"/security/{kind}", json=body)
    [item] = answer.json()["data"]["affected_items"]
    return int(item["id"])


async def test_from_creation_to_logout(client: httpx.AsyncClient) -> None:
    user = await created(client, "users", {"username": "carol", "password": PASSWORD})
    role = await created(client, "roles", {"name": "night"})
    policy = {"actions": ["security:read"], "resources": [f"user:id:{user}"], "effect": "allow"}
    one = await created(client, "policies", {"name": "see-carol", "policy": policy})
    assert (await client.post(f"/security/roles/{role}/policies?policy_ids={one}")).json()["error"] == 0
    linked = (await client.post(f"/security/users/{user}/roles?role_ids={role}&position=0")).json()
    carol = {"id": user, "username": "carol", "allow_run_as": False, "roles": [role]}
    assert linked["data"]["affected_items"] == [carol]
    await log_in(client, "carol", PASSWORD)
    assert (await client.get("/security/users")).json()["data"]["affected_items"] == [carol]
    partly = (await client.get(f"/security/users?user_ids=001,0{user}")).json()
    assert (partly["error"], partly["data"]["affected_items"]) == (2, [carol])
    assert partly["data"]["failed_items"][0]["id"] == [1]
    denied = await client.get("/security/users?user_ids=1")
    assert denied.status_code == 403
    assert denied.json() | {"remediation": ""} == {
        "title": "Permission Denied",
        "detail": "Permission denied: Resource type: user:id",
        "remediation": "",
        "dapi_errors": {"unknown-node": {"error": "Permission denied: Resource type: user:id"}},
        "error": 4000,
    }
    assert (await client.delete("/security/user/authenticate?pretty=true")).status_code == 200
    assert (await client.get("/security/users/me")).status_code == 401


REFUSALS: list[tuple[str, str, dict[str, Any], int, int | None]] = [
    ("PUT", "/security/users/1", {"json": {}}, 400, 4001),
    ("PUT", "/security/users/1", {"json": {"password": ""}}, 400, 5009),
    ("PUT", "/security/users/1", {"json": {"password": "abcdefgh"}}, 400, 5007),
    ("PUT", "/security/users/1", {"json": {"username": "other"}}, 400, None),
    ("PUT", "/security/users/x", {"json": {"password": PASSWORD}}, 400, None),
    ("POST", "/security/users", {"content": '{"username": "carol", "password": "x"}'}, 406, 6002),
    ("POST", "/security/users", {"json": {"username": "abc", "password": PASSWORD}}, 400, None),
    ("POST", "/security/users", {"json": []}, 400, None),
    ("POST", "/security/users", {}, 400, None),
    ("DELETE", "/security/users", {}, 400, None),
    ("DELETE", "/security/users/999/roles?role_ids=1", {}, 404, 5001),
    ("DELETE", "/security/roles/999/policies?policy_ids=1", {}, 404, 4002),
    ("DELETE", "/security/roles/999/rules?rule_ids=all", {}, 404, 4002),
    ("POST", "/security/users/100/roles?role_ids=all", {}, 400, None),
    ("POST", "/security/users/100/roles?role_ids=1&position=-1", {}, 400, None),
    ("GET", "/security/users?sort=roles", {}, 400, 1403),
    ("GET", "/security/users?select=nothing", {}, 400, 1724),
    ("GET", "/security/actions?endpoint=GET%20/nowhere", {}, 400, 4020),
    ("GET", "/security/resources?resource=agent", {}, 400, None),
    ("GET", "/security/users/me/policies?wait_for_complete=true", {}, 400, None),
    ("PATCH", "/security/users", {}, 405, None),
]


@pytest.mark.parametrize(("method", "path", "options", "status", "code"), REFUSALS)
async def test_refusals(
    client: httpx.AsyncClient, method: str, path: str, options: dict[str, Any], status: int, code: int | None
) -> None:
    answer = await client.request(method, path, **options)
    assert (answer.status_code, answer.json().get("error")) == (status, code), answer.text


async def test_item_failures_are_no_http_errors(client: httpx.AsyncClient) -> None:
    answer = await client.put("/security/users/999", json={"password": PASSWORD})
    assert answer.status_code == 200
    assert answer.json()["error"] == 1
    [failed] = answer.json()["data"]["failed_items"]
    assert (failed["error"]["code"], failed["id"]) == (5001, [999])


async def test_revoking_everything_revokes_the_caller(client: httpx.AsyncClient) -> None:
    assert (await client.put("/security/user/revoke")).json() == {"message": "Every token was revoked", "error": 0}
    assert (await client.get("/security/users/me")).status_code == 401
    await log_in(client, "admin", PASSWORD)
    assert (await client.get("/security/users/me")).status_code == 200


LISTS = [("users", "user_ids"), ("roles", "role_ids"), ("policies", "policy_ids"), ("rules", "rule_ids")]


@pytest.mark.parametrize(("kind", "ids"), LISTS)
async def test_an_id_named_twice_is_listed_once(client: httpx.AsyncClient, kind: str, ids: str) -> None:
    data = (await client.get(f"/security/{kind}?{ids}=2,1,2&{ids}=01,998,0998")).json()["data"]
    assert ([item["id"] for item in data["affected_items"]], data["total_affected_items"]) == ([1, 2], 2)
    assert ([one["id"] for one in data["failed_items"]], data["total_failed_items"]) == ([[998]], 1)


@pytest.mark.parametrize(("kind", "ids"), LISTS)
async def test_an_id_named_twice_is_deleted_once(client: httpx.AsyncClient, kind: str, ids: str) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "users": {"username": "carol", "password": PASSWORD},
        "roles": {"name": "night"},
        "policies": {"name": "p", "policy": {"actions": ["a:b"], "resources": ["*:*:*"], "effect": "deny"}},
        "rules": {"name": "r", "rule": {"FIND": {"a": "b"}}},
    }
    made = await created(client, kind, bodies[kind])
    data = (await client.delete(f"/security/{kind}?{ids}={made},0{made}")).json()["data"]
    assert (len(data["affected_items"]), data["total_failed_items"]) == (1, 0)


async def test_an_id_named_twice_is_linked_once(client: httpx.AsyncClient) -> None:
    role = await created(client, "roles", {"name": "night"})
    data = (await client.post(f"/security/roles/{role}/policies?policy_ids=2,1,02")).json()["data"]
    assert (data["affected_items"][0]["policies"], data["total_failed_items"]) == ([2, 1], 0)
    data = (await client.delete(f"/security/roles/{role}/policies?policy_ids=2,02,2")).json()["data"]
    assert (data["affected_items"][0]["policies"], data["total_failed_items"]) == ([1], 0)


HUGE = "1" + "0" * 19


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", f"/security/{kind}?{ids}=1,{HUGE}") for kind, ids in LISTS),
        *(("DELETE", f"/security/{kind}?{ids}={HUGE}") for kind, ids in LISTS),
        ("POST", f"/security/users/1/roles?role_ids={HUGE}"),
        ("POST", f"/security/users/{HUGE}/roles?role_ids=1"),
        ("PUT", f"/security/users/{HUGE}/run_as?allow_run_as=true"),
    ],
)
async def test_an_id_that_is_too_large_has_its_own_error(client: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await client.request(method, path)
    assert answer.status_code == 400, answer.text
    assert f"{HUGE} is greater than the maximum of 999999999999999999" in answer.json()["detail"]


async def test_the_largest_id_is_searched(client: httpx.AsyncClient) -> None:
    answer = await client.get(f"/security/users?user_ids={'9' * 18},{'0' * 40}1")
    assert [item["id"] for item in answer.json()["data"]["affected_items"]] == [1]
    assert answer.json()["data"]["failed_items"][0]["id"] == [int("9" * 18)]
