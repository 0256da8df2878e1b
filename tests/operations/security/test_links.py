"""Linking roles to users, policies and rules to roles: positions, order of checks, denials (rbac.md 1.1, 2, 5)."""

from typing import Any

import pytest

from tests.operations.office import Office, texts
from tests.operations.world import World

pytestmark = pytest.mark.anyio


@pytest.fixture
def office(alone: World) -> Office:
    return Office(alone)


class Pair:
    """An owner, five members, and the operations that link them."""

    def __init__(self, office: Office, ordered: str) -> None:
        self.office = office
        roles = ordered == "roles"
        self.path = "/security/users/{user_id}/roles" if roles else "/security/roles/{role_id}/policies"
        self.owner_id, self.member_ids = ("user_id", "role_ids") if roles else ("role_id", "policy_ids")
        self.field = "roles" if roles else "policies"
        self.missing, self.there, self.absent = (4002, 4017, 4016) if roles else (4007, 4011, 4010)
        self.unknown_owner = 5001 if roles else 4002
        self.roles = roles
        self.owner = 0
        self.members: list[int] = []

    async def prepare(self) -> "Pair":
        office = self.office
        self.owner = await (office.user("carol") if self.roles else office.role("night"))
        for number in range(5):
            made = office.role(f"r{number}") if self.roles else office.policy([], [])
            self.members.append(await made)
        return self

    def params(self, members: list[int | str], owner: int | None = None, **more: Any) -> dict[str, Any]:
        chosen = self.owner if owner is None else owner
        return {self.owner_id: str(chosen), self.member_ids: [str(one) for one in members], **more}

    async def link(self, *members: int, position: int | None = None) -> dict[str, Any]:
        more = {} if position is None else {"position": position}
        return await self.office.ask(f"POST {self.path}", **self.params(list(members), **more))

    async def unlink(self, *members: int | str) -> dict[str, Any]:
        return await self.office.ask(f"DELETE {self.path}", **self.params(list(members)))

    async def order(self) -> list[int]:
        kind, ids = ("users", "user_ids") if self.roles else ("roles", "role_ids")
        item = await self.office.one(f"GET /security/{kind}", **{ids: [str(self.owner)]})
        found: list[int] = item[self.field]
        return found


@pytest.fixture(params=["roles", "policies"])
async def pair(request: pytest.FixtureRequest, office: Office) -> Pair:
    return await Pair(office, request.param).prepare()


async def test_positions(pair: Pair) -> None:
    a, b, c, d, e = pair.members
    body = await pair.link(a, b)
    assert (body["data"]["total_affected_items"], len(body["data"]["affected_items"])) == (2, 1)
    assert body["data"]["affected_items"][0][pair.field] == [a, b]
    await pair.link(c, position=0)
    assert await pair.order() == [c, a, b]
    await pair.link(d, e, position=1)
    assert await pair.order() == [c, d, e, a, b]
    await pair.unlink(d, a)
    assert await pair.order() == [c, e, b]
    await pair.link(a, position=99)
    assert await pair.order() == [c, e, b, a]


async def test_the_position_advances_for_ids_that_succeed(pair: Pair) -> None:
    a, b, c, d, e = pair.members
    await pair.link(a, b, c)
    body = await pair.link(d, 999, e, position=1)
    assert await pair.order() == [a, d, e, b, c]
    assert (body["error"], body["data"]["total_affected_items"], body["data"]["total_failed_items"]) == (2, 2, 1)


async def test_linking_again(pair: Pair) -> None:
    a, b, c, _, _ = pair.members
    await pair.link(a, b, c)
    body = await pair.link(c)
    assert [(one["error"]["code"], one["id"]) for one in body["data"]["failed_items"]] == [(pair.there, [c])]
    assert (body["error"], body["data"]["affected_items"], body["data"]["total_affected_items"]) == (1, [], 0)
    body = await pair.link(c, position=0)
    assert (body["error"], body["data"]["total_affected_items"]) == (0, 1)
    assert await pair.order() == [a, b, c]


async def test_unlinking(pair: Pair) -> None:
    a, b, c, d, _ = pair.members
    await pair.link(a, b, c)
    body = await pair.unlink(b, d, 999)
    assert [(one["error"]["code"], one["id"]) for one in body["data"]["failed_items"]] == sorted(
        [(pair.missing, [999]), (pair.absent, [d])]
    )
    assert (body["error"], body["data"]["total_affected_items"]) == (2, 1)
    body = await pair.unlink("all")
    assert (body["error"], body["data"]["total_affected_items"], await pair.order()) == (0, 2, [])
    body = await pair.unlink("all")
    assert (body["error"], body["data"]["affected_items"], body["data"]["failed_items"]) == (0, [], [])


async def test_an_unknown_owner(pair: Pair) -> None:
    office = pair.office
    member = pair.members[0]
    failed = await office.failed(f"POST {pair.path}", **pair.params([member, 999], owner=888))
    assert failed == [(pair.unknown_owner, [888])]
    for members in ([member], ["all"]):
        error = await office.refused(f"DELETE {pair.path}", **pair.params(list(members), owner=888))
        assert (error.code, error.kind.status) == (pair.unknown_owner, 404)


async def test_a_reserved_owner(pair: Pair) -> None:
    for method in ("POST", "DELETE"):
        failed = await pair.office.failed(f"{method} {pair.path}", **pair.params([pair.members[0], 1, 999], owner=1))
        assert failed == [(4008, [1])]
    body = await pair.office.ask(f"DELETE {pair.path}", **pair.params(["all"], owner=1))
    assert (body["error"], body["data"]["failed_items"]) == (0, [])


async def test_reserved_members_may_be_linked_to_custom_owners(pair: Pair) -> None:
    await pair.link(1, 2)
    assert await pair.order() == [1, 2]


async def test_both_ends_need_permission(pair: Pair) -> None:
    office = pair.office
    a, b = pair.members[:2]
    owner = "user:id" if pair.roles else "role:id"
    member = "role:id" if pair.roles else "policy:id"
    await office.caller("owner-only", ("security:update", f"{owner}:{pair.owner}", "allow"))
    await office.caller(
        "half",
        ("security:update", f"{owner}:{pair.owner}", "allow"),
        ("security:update", f"{member}:{a}", "allow"),
        ("security:delete", f"{owner}:{pair.owner}", "allow"),
        ("security:delete", f"{member}:{a}", "allow"),
    )
    post = f"POST {pair.path}"
    error = await office.refused(post, "nobody", **pair.params([a]))
    assert (error.code, error.extra) == (4000, f"Resource type: {owner}")
    error = await office.refused(post, "owner-only", **pair.params([a]))
    assert (error.code, error.extra) == (4000, f"Resource type: {member}")
    assert await office.failed(post, "half", **pair.params([a, b])) == [(4000, [b])]
    await pair.link(b)
    body = await office.ask(f"DELETE {pair.path}", "half", **pair.params(["all"]))
    assert (body["error"], body["data"]["total_affected_items"], await pair.order()) == (0, 1, [b])


# Rules of roles


POST, DELETE = (f"{method} /security/roles/{{role_id}}/rules" for method in ("POST", "DELETE"))


async def test_rules_of_roles(office: Office) -> None:
    role, one, two = await office.role("night"), await office.rule("one"), await office.rule("two")
    body = await office.ask(POST, role_id=str(role), rule_ids=texts([two, one, 999]))
    assert body["data"]["affected_items"][0]["rules"] == [one, two]
    assert (body["error"], body["data"]["total_affected_items"]) == (2, 2)
    assert await office.failed(POST, role_id=str(role), rule_ids=texts([one, 998])) == [(4022, [998]), (4023, [one])]
    assert (await office.one("GET /security/rules", rule_ids=[str(one)]))["roles"] == [role]
    assert (await office.one(DELETE, role_id=str(role), rule_ids=[str(one)]))["rules"] == [two]
    assert await office.failed(DELETE, role_id=str(role), rule_ids=texts([one, 999])) == [(4022, [999]), (4024, [one])]
    assert (await office.one(DELETE, role_id=str(role), rule_ids=["all"]))["rules"] == []


async def test_reserved_rules_and_reserved_roles(office: Office) -> None:
    role, rule = await office.role("night"), await office.rule("one")
    assert await office.failed(POST, role_id=str(role), rule_ids=["1"]) == [(4008, [role])]
    assert await office.failed(DELETE, role_id="1", rule_ids=["1"]) == [(4008, [1])]
    assert await office.failed(POST, role_id="888", rule_ids=["1", str(rule)]) == [(4002, [888]), (4008, [888])]
    assert (await office.one(POST, role_id="1", rule_ids=[str(rule)]))["rules"] == [1, 2, rule]
    assert (await office.one(DELETE, role_id="1", rule_ids=["all"]))["rules"] == [1, 2]
    error = await office.refused(DELETE, role_id="888", rule_ids=[str(rule)])
    assert (error.code, error.kind.status) == (4002, 404)
