"""Users: constraints, protection, lists, and what each refusal looks like (rbac.md 2, 3, 5)."""

from typing import Any

import pytest

from secmon.cluster.catalogue import CATALOGUE
from secmon.cluster.parameters import ParameterError, read_text
from secmon.operations.bodies import read_body
from secmon.operations.security.users import ChangedUser, NewUser
from secmon.security.credentials import authenticate
from tests.operations.office import PASSWORD, Office, texts
from tests.operations.world import World

pytestmark = pytest.mark.anyio

GET, POST, DELETE = (f"{method} /security/users" for method in ("GET", "POST", "DELETE"))
PUT, RUN_AS = "PUT /security/users/{user_id}", "PUT /security/users/{user_id}/run_as"
NEW = "Another-1-secret"


@pytest.fixture
def office(alone: World) -> Office:
    return Office(alone)


async def test_create(office: Office) -> None:
    made = await office.one(POST, body={"username": "carol", "password": PASSWORD})
    assert made == {"id": made["id"], "username": "carol", "allow_run_as": False, "roles": []}
    assert made["id"] >= 100
    assert authenticate(office.node.security.view(), "carol", PASSWORD).id == made["id"]


async def test_names_are_unique_and_case_sensitive(office: Office) -> None:
    await office.user("carol")
    await office.user("CAROL")
    body = await office.ask(POST, body={"username": "carol", "password": PASSWORD})
    assert (body["error"], body["data"]["total_affected_items"], body["data"]["total_failed_items"]) == (1, 0, 1)
    assert body["data"]["failed_items"][0]["error"]["code"] == 5000
    assert body["data"]["failed_items"][0]["id"] == ["carol"]


async def test_ids_are_never_reused_by_the_store(office: Office) -> None:
    first = await office.user("carol")
    await office.one(DELETE, user_ids=[str(first)])
    assert await office.user("carol") == first + 1


PASSWORDS = [
    ("Abcdef1!", None),
    ("Abc def1", None),
    ("Abcdef1é", None),
    ("Aa1!" * 16, None),
    ("Aa1!" * 16 + "x", 5009),
    ("Abcde1!", 5009),
    ("", 5009),
    ("aa", 5009),
    ("Abcdefg1", 5007),
    ("Ábcdef1!", 5007),
    ("abcdef1!", 5007),
    ("ABCDEF1!", 5007),
    ("Abcdefg!", 5007),
    ("Abc\nef1!", 5007),
]


@pytest.mark.parametrize(("password", "code"), PASSWORDS)
async def test_password_rules(office: Office, password: str, code: int | None) -> None:
    user = await office.user("carol")
    create: dict[str, Any] = {"body": {"username": "dave", "password": password}}
    update: dict[str, Any] = {"user_id": str(user), "body": {"password": password}}
    for name, params in ((POST, create), (PUT, update)):
        if code is None:
            await office.one(name, **params)
        else:
            assert (await office.refused(name, **params)).code == code


@pytest.mark.parametrize(
    ("caller", "user", "body", "code"),
    [
        ("nobody", "1", {}, 4000),
        ("clerk", "1", {}, 4001),
        ("clerk", "1", {"password": "short"}, 5009),
        ("clerk", "1", {"password": "long enough"}, 5007),
        ("clerk", "1", {"password": NEW}, 5011),
        ("clerk", "50", {"password": NEW}, 5011),
    ],
)
async def test_order_of_refusals(office: Office, caller: str, user: str, body: dict[str, str], code: int) -> None:
    await office.caller("clerk", ("security:update", "user:id:*", "allow"))
    assert (await office.refused(PUT, caller, user_id=user, body=body)).code == code


async def test_update(office: Office) -> None:
    await office.caller("clerk", ("security:update", "user:id:*", "allow"))
    user = await office.user("carol")
    item = await office.one(PUT, "clerk", user_id=f"00{user}", body={"password": NEW})
    assert item == {"id": user, "username": "carol", "allow_run_as": False, "roles": []}
    assert authenticate(office.node.security.view(), "carol", NEW).id == user
    assert await office.failed(PUT, "clerk", user_id="999", body={"password": NEW}) == [(5001, [999])]
    assert await office.failed(PUT, user_id="77", body={"password": NEW}) == [(5001, [77])]


async def test_reserved_users_change_one_another(office: Office) -> None:
    assert (await office.one(PUT, "dashboard", user_id="1", body={"password": NEW}))["username"] == "admin"
    assert authenticate(office.node.security.view(), "admin", NEW).id == 1


async def test_run_as_flag(office: Office) -> None:
    await office.caller("clerk", ("security:edit_run_as", "*:*:*", "allow"))
    user = await office.user("carol")
    assert (await office.one(RUN_AS, "clerk", user_id=str(user), allow_run_as=True))["allow_run_as"] is True
    assert (await office.one(RUN_AS, "clerk", user_id=str(user)))["allow_run_as"] is False
    assert (await office.one(RUN_AS, "clerk", user_id="1"))["allow_run_as"] is False
    assert await office.failed(RUN_AS, "clerk", user_id="999") == [(5001, [999])]
    assert (await office.refused(RUN_AS, "nobody", user_id=str(user))).code == 4000


async def test_delete(office: Office) -> None:
    role = await office.role("night")
    carol, dave = await office.user("carol", role), await office.user("dave", role)
    body = await office.ask(DELETE, user_ids=texts([dave, 1, 999, carol, carol]))
    assert [item["id"] for item in body["data"]["affected_items"]] == [carol, dave]
    assert body["data"]["affected_items"][0]["roles"] == [role]
    assert body["data"]["total_affected_items"] == 2
    assert [(one["error"]["code"], one["id"]) for one in body["data"]["failed_items"]] == [(5001, [999]), (5004, [1])]
    assert body["error"] == 2
    assert await office.failed(GET, user_ids=texts([carol])) == [(5001, [carol])]
    assert (await office.one("GET /security/roles", role_ids=[str(role)]))["users"] == []


async def test_no_user_deletes_itself(office: Office) -> None:
    clerk = await office.caller("clerk", ("security:delete", "user:id:*", "allow"))
    assert await office.failed(DELETE, "clerk", user_ids=[str(clerk)]) == [(5008, [clerk])]
    assert await office.failed(DELETE, user_ids=["1"]) == [(5004, [1])]


@pytest.mark.parametrize("wanted", [["all"], ["999", "all"]])
async def test_delete_all_does_not_report_objects_that_remain(office: Office, wanted: list[str]) -> None:
    clerk = await office.caller("clerk", ("security:delete", "user:id:*", "allow"))
    await office.user("carol")
    body = await office.ask(DELETE, "clerk", user_ids=wanted)
    assert (body["error"], body["data"]["failed_items"]) == (0, [])
    assert "carol" in [item["username"] for item in body["data"]["affected_items"]]
    left = await office.ask(GET)
    assert [item["id"] for item in left["data"]["affected_items"]] == [1, 2, clerk]


async def test_delete_all_stays_within_what_is_permitted(office: Office) -> None:
    carol, dave = await office.user("carol"), await office.user("dave")
    await office.caller(
        "clerk", ("security:delete", f"user:id:{carol}", "allow"), ("security:read", "user:id:*", "allow")
    )
    body = await office.ask(DELETE, "clerk", user_ids=["all"])
    assert [item["id"] for item in body["data"]["affected_items"]] == [carol]
    assert (await office.one(GET, "clerk", user_ids=[str(dave)]))["id"] == dave
    body = await office.ask(DELETE, "nobody", user_ids=["all"])
    assert (body["error"], body["data"]["total_affected_items"]) == (0, 0)


async def test_list(office: Office) -> None:
    role = await office.role("night")
    await office.user("carol", role)
    body = await office.ask(GET, sort="-username", q="username~a", select=["username"])
    names = [item["username"] for item in body["data"]["affected_items"]]
    assert names == sorted(names, reverse=True)
    assert all(set(item) == {"id", "username"} for item in body["data"]["affected_items"])
    assert (await office.one(GET, search="carol"))["roles"] == [role]
    everyone = (await office.ask(GET))["data"]["affected_items"]
    assert [item["id"] for item in everyone] == sorted(item["id"] for item in everyone)
    page = await office.ask(GET, offset=1, limit=1)
    assert (page["data"]["affected_items"], page["data"]["total_affected_items"]) == (everyone[1:2], len(everyone))
    assert (await office.refused(GET, sort="roles")).code == 1403
    assert (await office.refused(GET, select=["password"])).code == 1724


async def test_each_id_counts_once_however_it_is_written(office: Office) -> None:
    body = await office.ask(GET, user_ids=["2", "001", "1", "0", "999", "1", "0999"])
    assert sorted(item["id"] for item in body["data"]["affected_items"]) == [1, 2]
    assert [(one["error"]["code"], one["id"]) for one in body["data"]["failed_items"]] == [(5001, [0, 999])]
    assert body["error"] == 2


async def test_lists_show_what_the_caller_may_see(office: Office) -> None:
    carol, dave = await office.user("carol"), await office.user("dave")
    await office.caller("clerk", ("security:read", f"user:id:{carol}", "allow"))
    assert [item["id"] for item in (await office.ask(GET, "clerk"))["data"]["affected_items"]] == [carol]
    assert await office.failed(GET, "clerk", user_ids=texts([carol, dave, 999])) == [(4000, [dave, 999])]
    error = await office.refused(GET, "clerk", user_ids=texts([dave]))
    assert (error.code, error.extra) == (4000, "Resource type: user:id")
    empty = await office.ask(GET, "nobody")
    assert (empty["error"], empty["data"]["total_affected_items"]) == (0, 0)


async def test_leading_zeros_do_not_bypass_a_denial(office: Office) -> None:
    carol = await office.user("carol")
    await office.caller(
        "clerk", ("security:delete", "user:id:*", "allow"), ("security:delete", f"user:id:{carol}", "deny")
    )
    assert (await office.refused(DELETE, "clerk", user_ids=[f"0{carol}"])).code == 4000


BODIES = [
    (NewUser, b'{"username": "abcd", "password": "x"}', True),
    (NewUser, b'{"username": "a-_.%Z9", "password": "x"}', True),
    (NewUser, b'{"username": "abc", "password": "x"}', False),
    (NewUser, b'{"username": "' + b"a" * 65 + b'", "password": "x"}', False),
    (NewUser, b'{"username": "with space", "password": "x"}', False),
    (NewUser, '{"username": "zoë-x", "password": "x"}'.encode(), False),
    (NewUser, b'{"username": "abcd\\n", "password": "x"}', False),
    (NewUser, b'{"username": 12345, "password": "x"}', False),
    (NewUser, b'{"username": "abcd"}', False),
    (NewUser, b'{"username": "abcd", "password": 5}', False),
    (NewUser, b'{"username": "abcd", "password": "x", "id": 7}', False),
    (ChangedUser, b"{}", True),
    (ChangedUser, b'{"username": "abcd"}', False),
    (ChangedUser, b'{"password": null}', False),
    (ChangedUser, b"[]", False),
    (ChangedUser, b"", False),
]


@pytest.mark.parametrize(("kind", "body", "good"), BODIES)
async def test_bodies(kind: type[Any], body: bytes, good: bool) -> None:
    if good:
        read_body(body, kind)
    else:
        with pytest.raises(ParameterError):
            read_body(body, kind)


QUERIES = [
    (GET, [("user_ids", "1,007")], {}, True),
    (GET, [("user_ids", "all")], {}, False),
    (GET, [("user_ids", "-1")], {}, False),
    (GET, [("user_ids", "1,,2")], {}, False),
    (GET, [("user_ids", "1x")], {}, False),
    (GET, [("user_ids", "9" * 19)], {}, False),
    (GET, [("unknown", "1")], {}, False),
    (DELETE, [("user_ids", "1,all")], {}, True),
    (DELETE, [], {}, False),
    (DELETE, [("user_ids", "every")], {}, False),
    (RUN_AS, [("allow_run_as", "TRUE")], {"user_id": "1"}, True),
    (RUN_AS, [("allow_run_as", "yes")], {"user_id": "1"}, False),
    (RUN_AS, [], {"user_id": "one"}, False),
    ("POST /security/users/{user_id}/roles", [("role_ids", "all")], {"user_id": "1"}, False),
    ("POST /security/users/{user_id}/roles", [("role_ids", "1"), ("position", "-1")], {"user_id": "1"}, False),
    ("POST /security/users/{user_id}/roles", [("role_ids", "1"), ("position", "0")], {"user_id": "1"}, True),
    ("POST /security/users/{user_id}/roles", [("position", "0")], {"user_id": "1"}, False),
    ("DELETE /security/users/{user_id}/roles", [("role_ids", "all")], {"user_id": "1"}, True),
    ("POST /security/roles/{role_id}/policies", [("policy_ids", "all")], {"role_id": "1"}, False),
    ("POST /security/roles/{role_id}/rules", [("rule_ids", "all")], {"role_id": "1"}, False),
    ("POST /security/roles/{role_id}/rules", [("rule_ids", "1"), ("position", "0")], {"role_id": "1"}, False),
    ("GET /security/resources", [("resource", "RULE:ID")], {}, True),
    ("GET /security/resources", [("resource", "agent")], {}, False),
    ("GET /security/users/me/policies", [("wait_for_complete", "true")], {}, False),
    ("DELETE /security/user/authenticate", [("pretty", "true")], {}, True),
]


@pytest.mark.parametrize(("name", "query", "path", "good"), QUERIES)
async def test_parameters(name: str, query: list[tuple[str, str]], path: dict[str, str], good: bool) -> None:
    operation = CATALOGUE.get(name)
    assert operation is not None
    if good:
        read_text(operation.parameters, query, path)
    else:
        with pytest.raises(ParameterError):
            read_text(operation.parameters, query, path)
