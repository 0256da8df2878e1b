"""What callers learn of themselves, and the catalogue of actions (rbac.md 5.1)."""

from typing import get_args

import pytest
from msgspec import structs

from secmon.cluster.catalogue import CATALOGUE
from secmon.common.errors import SecmonError
from secmon.common.identity import local_identity
from secmon.common.outcome import Outcome, Plain
from secmon.operations.security.actions import ResourceKind, related_endpoints
from secmon.security.rbac.action_table import load_actions
from secmon.security.rbac.defaults import load_defaults
from tests.operations.office import Office
from tests.operations.world import World

pytestmark = pytest.mark.anyio

ME, MINE = "GET /security/users/me", "GET /security/users/me/policies"


@pytest.fixture
def office(alone: World) -> Office:
    return Office(alone)


async def as_token(office: Office, name: str, user: str, *roles: int) -> Outcome | Plain:
    """The answer to a token that carries ``roles``."""
    running = next(iter(office.world.nodes.values()))
    call = office.world.call(name, user, {}, on=running)
    result = await running.router.route(structs.replace(call, identity=structs.replace(call.identity, roles=roles)))
    assert isinstance(result, Outcome | Plain)
    return result


async def test_me(office: Office) -> None:
    policy = await office.policy(["agent:read"], ["agent:id:001"])
    role = await office.role("night", policy)
    rule = await office.rule("given", role)
    user = await office.user("carol", role)
    body = await office.one("GET /security/policies", policy_ids=[str(policy)])
    assert await office.one(ME, "carol") == {
        "id": user,
        "username": "carol",
        "allow_run_as": False,
        "roles": [
            {
                "id": role,
                "name": "night",
                "policies": [{"id": policy, "name": body["name"], "policy": body["policy"]}],
                "rules": [{"id": rule, "name": "given", "rule": {"FIND": {"t": "given"}}}],
            }
        ],
    }


async def test_me_shows_the_roles_of_the_token_in_its_order_without_deleted_ones(office: Office) -> None:
    one, two, three = [await office.role(name) for name in ("one", "two", "three")]
    await office.user("carol")
    await office.one("DELETE /security/roles", role_ids=[str(two)])
    result = await as_token(office, ME, "carol", three, two, one)
    assert isinstance(result, Outcome)
    assert [role["id"] for role in result.items[0]["roles"]] == [three, one]


async def test_me_without_a_user(office: Office) -> None:
    running = next(iter(office.world.nodes.values()))
    call = structs.replace(office.world.call(ME, "admin", {}, on=running), identity=local_identity())
    result = await running.router.route(call)
    assert isinstance(result, Outcome)
    assert [failure.code for failure in result.failures] == [5001]


async def test_my_policies_are_the_flattened_map(office: Office) -> None:
    await office.caller(
        "clerk",
        ("agent:read", "agent:id:001", "allow"),
        ("agent:read", "agent:id:*", "allow"),
        ("agent:read", "agent:id:002", "deny"),
    )
    body = await office.ask(MINE, "clerk")
    assert body["error"] == 0
    assert list(body["data"]["agent:read"].items()) == [("agent:id:*", "allow"), ("agent:id:002", "deny")]
    assert list(body["data"])[-1] == "rbac_mode"
    await office.user("dave")
    assert (await office.ask(MINE, "dave"))["data"] == {"rbac_mode": "white"}
    await office.ask("PUT /security/config", body={"rbac_mode": "black"})
    assert (await office.ask(MINE, "dave"))["data"] == {"rbac_mode": "black"}


async def test_my_policies_are_returned_while_daemons_are_down(office: Office) -> None:
    running = next(iter(office.world.nodes.values()))
    running.control.states["secmon-analysisd"] = "failed"
    assert (await office.ask(MINE))["error"] == 0
    assert (await office.refused(ME)).code == 1017


async def test_logout_and_the_name_in_its_message(office: Office) -> None:
    await office.user("carol")
    body = await office.ask("DELETE /security/user/authenticate", "carol")
    assert body == {"message": "User carol was logged out", "error": 0}


async def test_revoke_needs_permission(office: Office) -> None:
    assert (await office.refused("PUT /security/user/revoke", "nobody")).code == 4000
    assert set(await office.ask("PUT /security/user/revoke")) == {"message", "error"}


async def test_actions(office: Office) -> None:
    data = (await office.ask("GET /security/actions", "nobody"))["data"]
    assert tuple(data) == tuple(load_actions().actions)
    assert data["security:read"] == {
        "description": data["security:read"]["description"],
        "resources": ["policy:id", "role:id", "user:id", "rule:id"],
        "example": {
            "actions": ["security:read"],
            "resources": ["policy:id:100", "role:id:100", "user:id:100", "rule:id:100"],
            "effect": "allow",
        },
        "related_endpoints": [
            f"GET /security/{kind}" for kind in ("users", "roles", "rules", "policies", "users/{user_id}/permissions")
        ],
    }
    assert data["security:revoke"]["related_endpoints"] == ["PUT /security/user/revoke"]
    assert all(CATALOGUE.get(one) for action in data.values() for one in action["related_endpoints"])


async def test_actions_of_an_endpoint(office: Office) -> None:
    name = "DELETE /security/users/{user_id}/roles"
    data = (await office.ask("GET /security/actions", endpoint=name))["data"]
    assert {action: info["related_endpoints"] for action, info in data.items()} == {"security:delete": [name]}
    assert (await office.ask("GET /security/actions", endpoint="GET /"))["data"] == {}
    for wrong in ("GET /nowhere", "get /security/users", "GET /security/users/"):
        error = await office.refused("GET /security/actions", endpoint=wrong)
        assert error.code == 4020
        assert "GET /security/users" in error.message


async def test_resources(office: Office) -> None:
    data = (await office.ask("GET /security/resources", "nobody"))["data"]
    assert tuple(data) == get_args(ResourceKind) == tuple(load_actions().resources)
    one = await office.ask("GET /security/resources", resource="rule:id")
    assert one == {"data": {"rule:id": data["rule:id"]}, "error": 0}
    with pytest.raises(SecmonError):
        await office.ask("GET /security/resources", resource="agent")


async def test_every_action_that_is_asked_for_or_granted_is_listed() -> None:
    known = load_actions()
    for operation in CATALOGUE:
        for require in operation.require:
            assert operation.name in related_endpoints(require.action)
            assert require.resource in known.actions[require.action].resources, (operation.name, require)
    for policy in load_defaults().policies:
        for action in policy.policy.actions:
            kinds = {resource.rpartition(":")[0] for resource in policy.policy.resources}
            assert kinds & set(known.actions[action].resources), action
    assert {kind for action in known.actions.values() for kind in action.resources} == set(known.resources)
