"""What a user may do, and why: role, policy and rules of each permission (rbac.md 7.1, 10.1)."""

from typing import Any

import pytest

from tests.operations.office import Office
from tests.operations.world import World

pytestmark = pytest.mark.anyio

OF, MINE = "GET /security/users/{user_id}/permissions", "GET /security/users/me/permissions"


@pytest.fixture
def office(alone: World) -> Office:
    return Office(alone)


def said(body: dict[str, Any]) -> list[tuple[str, str, str, str, int, int]]:
    """The permissions on agents: resource, effect, role, policy and their positions."""
    return [
        (
            *(one["resource"], one["effect"], one["role"]["name"], one["policy"]["name"]),
            *(one["role"]["position"], one["policy"]["position"]),
        )
        for one in body["data"]["affected_items"]
        if one["action"] == "agent:read"
    ]


async def test_the_policy_that_decides_is_named_in_its_order(office: Office) -> None:
    some = await office.policy(["agent:read"], ["agent:id:001", "agent:group:web"])
    every = await office.policy(["agent:read"], ["agent:id:*", "agent:id:002"])
    denied = await office.policy(["agent:read"], ["agent:id:002"], "deny")
    first, second = await office.role("first", some, every), await office.role("second", denied)
    user = await office.user("carol", first, second)
    expected = [("agent:id:*", "allow", "first", "p2", 0, 1), ("agent:id:002", "deny", "second", "p3", 1, 0)]
    for body in (await office.ask(OF, user_id=str(user)), await office.ask(MINE, "carol")):
        assert body["error"] == 0
        assert said(body) == expected
    other = await office.user("dave", second, first)
    assert said(await office.ask(OF, user_id=str(other))) == [
        ("agent:id:*", "allow", "first", "p2", 1, 1),
        ("agent:id:002", "allow", "first", "p2", 1, 1),
    ]


async def test_it_is_a_collection(office: Office) -> None:
    user = await office.caller(
        "carol", ("agent:read", "agent:id:001", "allow"), ("agent:restart", "agent:id:002", "deny")
    )
    for query in ({"search": "agent:restart"}, {"q": "effect=deny;action~restart"}):
        [one] = (await office.ask(OF, user_id=str(user), **query))["data"]["affected_items"]
        assert (one["action"], one["resource"], one["effect"]) == ("agent:restart", "agent:id:002", "deny")
    assert (await office.ask(OF, user_id=str(user), limit=1))["data"]["total_affected_items"] == 4


async def test_a_context_gives_the_roles_whose_rules_hold(office: Office) -> None:
    role = await office.role("night", await office.policy(["agent:read"], ["agent:id:001"]))
    rule = await office.rule("given", role)
    await office.rule("withheld", role)
    user = await office.user("carol")
    context = '{"team": {"t": "given"}}'
    assert await office.failed(OF, user_id=str(user), context=context) == [(6004, [user])]
    await office.one("PUT /security/users/{user_id}/run_as", user_id=str(user), allow_run_as=True)
    body = await office.ask(OF, user_id=str(user), context=context)
    assert said(body) == [("agent:id:001", "allow", "night", "p1", 0, 0)]
    assert body["data"]["affected_items"][0]["rules"] == [{"id": rule, "name": "given"}]
    assert said(await office.ask(OF, user_id=str(user), context='{"t": "other"}')) == []
    # As a login does: an empty context gives the own roles, which are none here.
    assert said(await office.ask(OF, user_id=str(user), context="{}")) == []


@pytest.mark.parametrize("context", ["", "x", "[]", "null", '{"a": ', "[" * 5_000])
async def test_a_context_is_a_json_object(office: Office, context: str) -> None:
    user = await office.user("carol")
    assert (await office.refused(OF, user_id=str(user), context=context)).code == 4026


async def test_an_unknown_user(office: Office) -> None:
    assert await office.failed(OF, user_id="700") == [(5001, [700])]


async def test_who_may_not_read_a_role_or_policy_learns_which_ones(office: Office) -> None:
    seen, other, unread = [await office.policy(["agent:read"], [f"agent:id:00{n}"]) for n in (1, 2, 3)]
    shown, hidden = await office.role("shown", seen, other), await office.role("hidden", unread)
    user = await office.user("carol", shown, hidden)
    await office.caller(
        "clerk",
        ("security:read", f"user:id:{user}", "allow"),
        ("security:read", f"role:id:{shown}", "allow"),
        ("security:read", "policy:id:*", "allow"),
        ("security:read", f"policy:id:{other}", "deny"),
    )
    body = await office.ask(OF, "clerk", user_id=str(user))
    assert said(body) == [("agent:id:001", "allow", "shown", "p1", 0, 0)]
    assert body["error"] == 2
    failed = [(entry["error"]["message"], entry["id"]) for entry in body["data"]["failed_items"]]
    assert failed == [
        ("Permission denied: Resource type: policy:id", [other]),
        ("Permission denied: Resource type: role:id", [hidden]),
    ]
    assert (await office.refused(OF, "clerk", user_id="1")).code == 4000
