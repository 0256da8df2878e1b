"""Roles, policies and security rules: constraints, protection, lists (rbac.md 2, 3, 5, 6)."""

from typing import Any

import pytest

from secmon.cluster.parameters import ParameterError
from secmon.operations.bodies import read_body
from secmon.operations.security.policies import ChangedPolicy, NewPolicy
from secmon.operations.security.roles import ChangedRole, NewRole
from secmon.operations.security.rules import ChangedRule, NewRule
from tests.operations.office import Office, texts
from tests.operations.world import World

pytestmark = pytest.mark.anyio

AGENTS = {"actions": ["agent:read"], "resources": ["agent:id:001"], "effect": "allow"}
NOBODY: dict[str, Any] = {"actions": [], "resources": [], "effect": "deny"}

# Kind, name of the id, code of a missing object, a body for the first and for the second object.
KINDS = [
    ("roles", "role", 4002, {}, {}),
    ("policies", "policy", 4007, {"policy": AGENTS}, {"policy": NOBODY}),
    ("rules", "rule", 4022, {"rule": {"FIND": {"a": "b"}}}, {"rule": {}}),
]
DUPLICATE = {"role": (4005, 4005), "policy": (4009, 4013), "rule": (4005, 4005)}


@pytest.fixture
def office(alone: World) -> Office:
    return Office(alone)


@pytest.mark.parametrize(("area", "noun", "missing", "first", "second"), KINDS, ids=lambda value: str(value)[:8])
async def test_life_of_an_object(
    office: Office, area: str, noun: str, missing: int, first: dict[str, Any], second: dict[str, Any]
) -> None:
    path, single = f"/security/{area}", f"/security/{area}/{{{noun}_id}}"
    one = await office.one(f"POST {path}", body={"name": "night-shift", **first})
    assert one["id"] >= 100
    assert one["name"] == "night-shift"
    assert all(value == [] for name, value in one.items() if name not in ("id", "name", noun))
    two = await office.one(f"POST {path}", body={"name": "NIGHT-shift", **second})
    assert two["id"] == one["id"] + 1
    assert await office.one(f"GET {path}", **{f"{noun}_ids": [str(two["id"])]}) == two
    renamed = await office.one(f"PUT {single}", **{f"{noun}_id": str(two["id"])}, body={"name": "day"})
    assert renamed == two | {"name": "day"}
    assert await office.one(f"PUT {single}", **{f"{noun}_id": str(two["id"])}, body={"name": "day"}) == renamed
    assert await office.one(f"DELETE {path}", **{f"{noun}_ids": [str(two["id"])]}) == renamed
    assert await office.failed(f"GET {path}", **{f"{noun}_ids": [str(two["id"])]}) == [(missing, [two["id"]])]
    third = await office.one(f"POST {path}", body={"name": "day", **second})
    assert third["id"] == two["id"] + 1


@pytest.mark.parametrize(("area", "noun", "missing", "first", "second"), KINDS, ids=lambda value: str(value)[:8])
async def test_names_and_bodies_are_given_once(
    office: Office, area: str, noun: str, missing: int, first: dict[str, Any], second: dict[str, Any]
) -> None:
    path, single = f"/security/{area}", f"/security/{area}/{{{noun}_id}}"
    creating, updating = DUPLICATE[noun]
    await office.one(f"POST {path}", body={"name": "a", **first})
    other = (await office.one(f"POST {path}", body={"name": "b", **second}))["id"]
    assert await office.failed(f"POST {path}", body={"name": "a", **second}) == [(creating, ["a"])]
    update = {f"{noun}_id": str(other)}
    assert await office.failed(f"PUT {single}", **update, body={"name": "a"}) == [(updating, [other])]
    if first:
        assert await office.failed(f"POST {path}", body={"name": "c", **first}) == [(creating, ["c"])]
        assert await office.failed(f"PUT {single}", **update, body=first) == [(updating, [other])]


@pytest.mark.parametrize(("area", "noun", "missing", "first", "second"), KINDS, ids=lambda value: str(value)[:8])
async def test_refusals(
    office: Office, area: str, noun: str, missing: int, first: dict[str, Any], second: dict[str, Any]
) -> None:
    path, single = f"/security/{area}", f"/security/{area}/{{{noun}_id}}"
    body = {"name": "x", **first}
    assert (await office.refused(f"PUT {single}", **{f"{noun}_id": "1"}, body={})).code == 4001
    assert await office.failed(f"PUT {single}", **{f"{noun}_id": "1"}, body=body) == [(4008, [1])]
    assert await office.failed(f"PUT {single}", **{f"{noun}_id": "999"}, body=body) == [(missing, [999])]
    expected = [(4008, [1, 99]), (missing, [999])]
    assert sorted(await office.failed(f"DELETE {path}", **{f"{noun}_ids": ["999", "1", "99"]})) == sorted(expected)
    assert await office.failed(f"GET {path}", **{f"{noun}_ids": ["1", "0"]}) == [(missing, [0])]
    for name, params in (
        (f"POST {path}", {"body": body}),
        (f"PUT {single}", {f"{noun}_id": "100", "body": body}),
        (f"DELETE {path}", {f"{noun}_ids": ["100"]}),
        (f"GET {path}", {f"{noun}_ids": ["100"]}),
    ):
        assert (await office.refused(name, "nobody", **params)).code == 4000
    assert (await office.ask(f"GET {path}", "nobody"))["data"]["total_affected_items"] == 0
    assert (await office.refused(f"GET {path}", sort="users")).code == 1403


@pytest.mark.parametrize(("area", "noun"), [("roles", "role"), ("policies", "policy"), ("rules", "rule")])
async def test_delete_all(office: Office, area: str, noun: str) -> None:
    made = [await office.role("a"), await office.rule("a"), await office.policy([], [])]
    body = await office.ask(f"DELETE /security/{area}", **{f"{noun}_ids": ["all"]})
    assert (body["error"], body["data"]["failed_items"]) == (0, [])
    assert {item["id"] for item in body["data"]["affected_items"]} & set(made)
    left = (await office.ask(f"GET /security/{area}"))["data"]["affected_items"]
    assert left
    assert all(item["id"] < 100 for item in left)


async def test_partial_denial(office: Office) -> None:
    one, two = await office.role("one"), await office.role("two")
    await office.caller("clerk", ("security:read", f"role:id:{one}", "allow"))
    body = await office.ask("GET /security/roles", "clerk", role_ids=texts([one, two, 999]))
    assert [item["id"] for item in body["data"]["affected_items"]] == [one]
    [failed] = body["data"]["failed_items"]
    assert (failed["error"]["code"], failed["id"], body["error"]) == (4000, [two, 999], 2)
    assert failed["error"]["message"].endswith("Resource type: role:id")


async def test_deleting_closes_the_gaps_in_lists(office: Office) -> None:
    policies = [await office.policy(["a:b"], []) for _ in range(3)]
    roles = [await office.role("r0", *policies), await office.role("r1"), await office.role("r2")]
    user = await office.user("carol", *roles)
    await office.one("DELETE /security/policies", policy_ids=[str(policies[1])])
    await office.one("DELETE /security/roles", role_ids=[str(roles[1])])
    extra = await office.policy(["a:c"], [])
    path = "POST /security/roles/{role_id}/policies"
    linked = await office.one(path, role_id=str(roles[0]), policy_ids=[str(extra)], position=1)
    assert linked["policies"] == [policies[0], extra, policies[2]]
    assert (await office.one("GET /security/users", user_ids=[str(user)]))["roles"] == [roles[0], roles[2]]


async def test_policies_are_stored_in_lower_case_but_for_values(office: Office) -> None:
    body = {"actions": ["AGENT:Read"], "resources": ["AGENT:ID:0A1", "Group:ID:Web&agent:ID:X"], "effect": "DENY"}
    made = await office.one("POST /security/policies", body={"name": "p", "policy": body})
    assert made["policy"] == {
        "actions": ["agent:read"],
        "resources": ["agent:id:0A1", "group:id:Web&agent:id:X"],
        "effect": "deny",
    }


async def test_order_within_lists_distinguishes_policies(office: Office) -> None:
    for name, actions in (("one", ["a:b", "c:d"]), ("two", ["c:d", "a:b"])):
        await office.one("POST /security/policies", body={"name": name, "policy": NOBODY | {"actions": actions}})
    reordered = {"effect": "deny", "resources": [], "actions": ["a:b", "c:d"]}
    failed = await office.failed("POST /security/policies", body={"name": "three", "policy": reordered})
    assert failed == [(4009, ["three"])]


POLICIES = [
    ({"actions": ["a-b_c:d-e_f"]}, True),
    ({"actions": ["security:*"]}, False),
    ({"actions": ["agent"]}, False),
    ({"actions": ["agent:read:x"]}, False),
    ({"actions": ["agent:read1"]}, False),
    ({"actions": [""]}, False),
    ({"actions": ["agent:read\n"]}, False),
    ({"resources": ["*:*:*"]}, True),
    ({"resources": ["agent:id:*"]}, True),
    ({"resources": ["rule:file:a-b_c./d*"]}, True),
    ({"resources": ["a:b:c&d:e:f"]}, True),
    ({"resources": ["*"]}, False),
    ({"resources": ["agent:id"]}, False),
    ({"resources": ["agent:id:1:2"]}, False),
    ({"resources": ["agent:id:"]}, False),
    ({"resources": ["agent:*:x"]}, False),
    ({"resources": ["my-agent:id:x"]}, False),
    ({"resources": ["agent1:id:x"]}, False),
    ({"resources": ["agent:id:zoë"]}, False),
    ({"resources": ["agent:id:a b"]}, False),
    ({"resources": ["agent:id:a%b"]}, False),
    ({"resources": ["agent:id:a,b"]}, False),
    ({"resources": ["a:b:c&d:e:f&g:h:i"]}, False),
    ({"resources": ["a:b:c&"]}, False),
    ({"effect": "Allow"}, True),
    ({"effect": "audit"}, False),
    ({"effect": ""}, False),
    ({"extra": 1}, False),
]


@pytest.mark.parametrize(("change", "good"), POLICIES, ids=lambda value: str(value)[:40])
async def test_policy_bodies(office: Office, change: dict[str, Any], good: bool) -> None:
    policy = await office.policy(["old:one"], [])
    body = NOBODY | change
    created = {"body": {"name": "p", "policy": body}}
    changed = {"policy_id": str(policy), "body": {"policy": body}}
    if good:
        await office.one("POST /security/policies", **created)
        await office.one("DELETE /security/policies", policy_ids=[str(policy + 1)])
        await office.one("PUT /security/policies/{policy_id}", **changed)
    else:
        assert await office.failed("POST /security/policies", **created) == [(4006, ["p"])]
        assert await office.failed("PUT /security/policies/{policy_id}", **changed) == [(4006, [policy])]


async def test_rules_are_stored_without_nulls_and_unchecked(office: Office) -> None:
    rule = {"FIND": {"a": None, "b": [{"c": None, "d": 1}, 2.5, True]}, "NONSENSE": {}, "x": None}
    made = await office.one("POST /security/rules", body={"name": "r", "rule": rule})
    assert made["rule"] == {"FIND": {"b": [{"d": 1}, 2.5, True]}, "NONSENSE": {}}


async def test_a_rule_nested_too_deeply(office: Office) -> None:
    rule: dict[str, Any] = {}
    for _ in range(100):
        rule = {"NOT": rule}
    assert await office.failed("POST /security/rules", body={"name": "r", "rule": rule}) == [(4003, ["r"])]


NAMES = [("a", True), ("a" * 64, True), ("a" * 65, False), ("", False), ("a b", False), ("ä", False), ("a%-_.", True)]


@pytest.mark.parametrize(("name", "good"), NAMES)
async def test_names(name: str, good: bool) -> None:
    for kind, rest in ((NewRole, ""), (NewRule, ', "rule": {}'), (ChangedRole, ""), (ChangedPolicy, "")):
        body = f'{{"name": "{name}"{rest}}}'.encode()
        if good:
            read_body(body, kind)
        else:
            with pytest.raises(ParameterError):
                read_body(body, kind)


BODIES: list[tuple[type[Any], str, str]] = [
    (NewPolicy, '{"name": "p", "policy": {"actions": [], "resources": [], "effect": "x", "more": 1}}', ""),
    (NewPolicy, '{"name": "p", "policy": {"actions": [], "resources": []}}', "effect"),
    (NewPolicy, '{"name": "p", "policy": {"actions": [1], "resources": [], "effect": "x"}}', "policy.actions"),
    (NewPolicy, '{"name": "p", "policy": {"actions": "a:b", "resources": [], "effect": "x"}}', "policy.actions"),
    (NewPolicy, '{"name": "p", "policy": {"actions": [], "resources": [], "effect": null}}', "policy.effect"),
    (NewPolicy, '{"name": "p", "policy": []}', "policy"),
    (NewPolicy, '{"name": "p"}', "policy"),
    (NewPolicy, '{"policy": {"actions": [], "resources": [], "effect": "x"}}', "name"),
    (NewPolicy, '{"name": "p", "policy": {}, "id": 1}', "id|actions"),
    (ChangedPolicy, "{}", ""),
    (ChangedPolicy, '{"policy": {"actions": []}}', "resources"),
    (NewRule, '{"name": "r", "rule": []}', "rule"),
    (NewRule, '{"name": "r", "rule": "x"}', "rule"),
    (NewRule, '{"name": "r", "rule": {"a": 123456789012345678901234567890}}', "too large"),
    (NewRule, '{"name": "r"}', "rule"),
    (ChangedRule, "{}", ""),
    (ChangedRule, '{"rule": null}', "rule"),
    (NewRole, '{"name": 5}', "name"),
    (NewRole, "{}", "name"),
    (NewRole, '{"name": "r", "policies": []}', "policies"),
]


@pytest.mark.parametrize(("kind", "body", "fault"), BODIES)
async def test_bodies(kind: type[Any], body: str, fault: str) -> None:
    if fault:
        with pytest.raises(ParameterError, match=fault):
            read_body(body.encode(), kind)
    else:
        read_body(body.encode(), kind)
