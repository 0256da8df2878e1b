"""Adding and removing agents, their keys, and permissions by group (agent-link.md 3.3, 3.4)."""

import base64
from typing import Any

import pytest

from secmon.agents.registry.entries import entries, tombstones
from secmon.agents.registry.store import put as put_value
from secmon.cluster.catalogue import CATALOGUE
from secmon.cluster.parameters import ParameterError, build
from secmon.common.errors import SecmonError
from tests.agents.rows import agent, put
from tests.operations.office import Office
from tests.operations.world import World

pytestmark = pytest.mark.anyio

ADD, INSERT, QUICK = "POST /agents", "POST /agents/insert", "POST /agents/insert/quick"
DELETE, KEY, LIST = "DELETE /agents", "GET /agents/{agent_id}/key", "GET /agents"
NOW = 1767225600  # the clock of the world: 2026-01-01
SECRET = "0123456789abcdef" * 4


@pytest.fixture
def office(alone: World) -> Office:
    return Office(alone)


async def add(office: Office, operation: str = ADD, /, **body: Any) -> dict[str, str]:
    found = await office.ask(operation, body=body)
    assert found["error"] == 0
    data: dict[str, str] = found["data"]
    return data


async def code(office: Office, operation: str = ADD, user: str = "admin", /, **body: Any) -> int:
    return (await office.refused(operation, user, body=body)).code


def line(data: dict[str, str]) -> str:
    return base64.b64decode(data["key"]).decode()


def lines(office: Office) -> list[str]:
    with office.node.agents.read() as connection:
        return [one.line for one in entries(connection)]


async def test_an_agent_is_added_and_its_key_can_be_read(office: Office) -> None:
    made = await add(office, name="web-01")
    assert made["id"] == "001"
    assert line(made).startswith("001 web-01 any ")
    assert (await office.ask(KEY, agent_id="001"))["data"]["affected_items"] == [made]
    for unknown in ("002", "0001"):
        assert await office.failed(KEY, agent_id=unknown) == [(1701, [unknown])]
    assert await office.failed(KEY, agent_id="000") == [(1703, ["000"])]
    assert lines(office) == [line(made)]


async def test_addresses(office: Office) -> None:
    for number, (given, stored) in enumerate(
        {
            "ANY": "any",
            "10.0.0.1": "10.0.0.1",
            "10.1.0.0/16": "10.1.0.0/16",
            "2001:DB8::17": "2001:0DB8:0000:0000:0000:0000:0000:0017",
        }.items()
    ):
        assert line(await add(office, name=f"a{number}", ip=given)).split()[2] == stored
    for wrong in ("10.0.0.1/8", "10.0.0", "host", "10.0.0.0/33"):
        assert await code(office, name="b", ip=wrong) == 1706
    assert await code(office, name="b", ip="10.0.0.1") == 1706


async def test_refusals(office: Office) -> None:
    await add(office, name="web-01")
    assert await code(office, name="web-01") == 1705
    assert await code(office, name=office.node.registrar.host_name) == 1705
    assert await code(office, name="n" * 129) == 1738
    assert await code(office, INSERT, name="b", key="a" * 63) == 1709
    assert await code(office, INSERT, name="b", id="000") == 1708
    assert await code(office, INSERT, name="b", id="001") == 1708
    assert len(lines(office)) == 1


async def test_replacing_needs_to_be_asked_for(office: Office) -> None:
    put_agents(office, *(agent(number, name=f"web-0{number}", date_add=NOW - 3600) for number in (1, 2)))
    now = {"enabled": True, "after_registration_time": "0s"}
    assert await code(office, name="web-01") == 1705
    assert await code(office, name="web-01", force={"after_registration_time": "0"}) == 1705
    assert await code(office, name="web-01", force={"enabled": True, "after_registration_time": "2h"}) == 1705
    assert (await add(office, name="web-01", force=now))["id"] == "003"
    assert (await add(office, INSERT, name="web-02"))["id"] == "004"
    assert (await office.refused(QUICK, agent_name="web-01")).code == 1705
    with office.node.agents.read() as connection:
        assert [(one.id, one.purged) for one in tombstones(connection)] == [(1, 1), (2, 1)]


ALL_OFF = {"enabled": True, "disconnected_time": {"enabled": False}, "after_registration_time": "0"}


@pytest.mark.parametrize("operation", [ADD, INSERT])
async def test_without_the_checks_only_agents_that_may_be_deleted_are_replaced(office: Office, operation: str) -> None:
    put_agents(
        office,
        *(agent(number, name=f"web-0{number}", connection_status="active", date_add=NOW) for number in (1, 2)),
        agent(3, name="web-03", date_add=NOW - 7200),
    )
    await office.caller("cora", ("agent:create", "*:*:*", "allow"), ("agent:delete", "agent:id:002", "allow"))

    async def refusal(name: str, **force: Any) -> SecmonError:
        return await office.refused(operation, "cora", body={"name": name, "force": {"enabled": True, **force}})

    refused = await refusal("web-01", **ALL_OFF)
    assert (refused.code, refused.ids, refused.extra) == (4000, ("001",), "Resource type: agent:id")
    assert (await refusal("web-01")).code == 1705  # the default checks protect it, as before
    made = await office.ask(operation, "cora", body={"name": "web-02", "force": ALL_OFF})
    assert made["data"]["id"] == "004"  # it may be deleted
    made = await office.ask(operation, "cora", body={"name": "web-03", "force": {"enabled": True}})
    assert made["data"]["id"] == "005"  # the default checks let it go
    made = await office.ask(operation, body={"name": "web-01", "force": ALL_OFF})
    assert made["data"]["id"] == "006"


async def test_an_agent_with_id_and_key_of_its_own(office: Office) -> None:
    made = await add(office, INSERT, name="web-01", id="007", key=SECRET, ip="10.0.0.1")
    assert line(made) == f"007 web-01 10.0.0.1 {SECRET}"
    quick = (await office.ask(QUICK, agent_name="web-02"))["data"]
    assert line(quick).startswith("008 web-02 any ")


@pytest.mark.parametrize("number", ["100000000", "9" * 18, "9" * 30])
def test_the_highest_id_is_named(number: str) -> None:
    operation = CATALOGUE.get(INSERT)
    assert operation is not None
    with pytest.raises(ParameterError, match="99999999"):
        build(operation.params, {"body": {"name": "a", "id": number}})


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        (ADD, {"body": {"name": "a b"}}),
        (ADD, {"body": {}}),
        (ADD, {"body": {"name": "a", "id": "001"}}),
        (ADD, {"body": {"name": "a", "force": {"after_registration_time": "1w"}}}),
        (INSERT, {"body": {"name": "a", "key": "a" * 63 + "-"}}),
        (INSERT, {"body": {"name": "a", "id": "1"}}),
        (QUICK, {"agent_name": "n" * 129}),
        (DELETE, {"agents_list": ["001"]}),
        (DELETE, {"status": ["all"]}),
        (DELETE, {"agents_list": ["001"], "status": []}),
        (DELETE, {"agents_list": ["001"], "status": ["lost"]}),
        (DELETE, {"agents_list": ["all"], "status": ["all"], "older_than": "1w"}),
    ],
)
def test_malformed_files(operation: str, params: dict[str, Any]) -> None:
    found = CATALOGUE.get(operation)
    assert found is not None
    with pytest.raises(ParameterError):
        build(found.params, params)


HELD = [
    agent(1, name="old", connection_status="disconnected", last_keepalive=NOW - 8 * 86400, date_add=0, group="x"),
    agent(2, name="fresh", connection_status="active", last_keepalive=NOW - 10, date_add=NOW - 9 * 86400),
    agent(3, name="never", date_add=NOW - 9 * 86400, group="x"),
    agent(4, name="new", date_add=NOW - 60),
]


def put_agents(office: Office, *rows: dict[str, Any]) -> None:
    with office.node.agents.write() as connection:
        put(connection, rows)
        put_value(connection, "next_id", max(row["id"] for row in rows) + 1)


@pytest.fixture
def held(office: Office) -> Office:
    put_agents(office, *HELD)
    return office


async def removed(
    office: Office, user: str = "admin", /, **params: Any
) -> tuple[list[str], list[tuple[int, list[str]]]]:
    body = await office.ask(DELETE, user, **params)
    data = body["data"]
    return data["affected_items"], [(one["error"]["code"], one["id"]) for one in data["failed_items"]]


@pytest.mark.parametrize(
    ("params", "gone"),
    [
        ({"status": ["all"]}, ["001", "003"]),
        ({"status": ["all"], "older_than": "0s"}, ["001", "002", "003", "004"]),
        ({"status": ["never_connected"]}, ["003"]),
        ({"status": ["disconnected", "never_connected"], "older_than": "30s"}, ["001", "003", "004"]),
        ({"status": ["all"], "older_than": "0s", "q": "name~e;status!=active"}, ["003", "004"]),
        ({"status": ["all"], "older_than": "0s", "group": "x"}, ["001", "003"]),
        ({"status": ["active"]}, []),
    ],
)
async def test_all_that_meet_the_conditions(held: Office, params: dict[str, Any], gone: list[str]) -> None:
    assert await removed(held, agents_list=["all"], **params) == (gone, [])
    assert [text.split()[0] for text in lines(held)] == [one for one in ("001", "002", "003", "004") if one not in gone]


async def test_each_named_agent_fails_with_its_reason(held: Office) -> None:
    body = await held.ask(DELETE, agents_list=["001", "002", "000", "099", "0001"], status=["all"])
    assert body["data"]["affected_items"] == ["001"]
    failed = {one["error"]["code"]: one for one in body["data"]["failed_items"]}
    assert {number: one["id"] for number, one in failed.items()} == {
        1701: ["0001", "099"],
        1703: ["000"],
        1731: ["002"],
    }
    assert failed[1731]["error"]["message"].endswith(": older_than=7d, status=all")


async def test_marked_or_missing_lines_of_the_key_file(held: Office) -> None:
    held.node.registrar.settings = type(held.node.registrar.settings)(disabled=False, purge=False)
    await removed(held, agents_list=["001"], status=["all"])
    await removed(held, agents_list=["003"], status=["all"], purge=True)
    with held.node.agents.read() as connection:
        assert [(one.id, one.purged) for one in tombstones(connection)] == [(1, 0), (3, 1)]


async def test_permissions_by_id_and_by_group(held: Office) -> None:
    await held.caller("gina", ("agent:delete", "agent:group:x", "allow"), ("agent:read", "agent:group:x", "allow"))
    assert [one["id"] for one in (await held.ask(LIST, "gina"))["data"]["affected_items"]] == ["001", "003"]
    assert await removed(held, "gina", agents_list=["001", "002"], status=["all"]) == (["001"], [(4000, ["002"])])
    assert (await held.refused(DELETE, "gina", agents_list=["002"], status=["all"])).code == 4000
    assert await removed(held, "gina", agents_list=["all"], status=["all"], older_than="0s") == (["003"], [])
    assert await removed(held, "gina", agents_list=["all"], status=["all"], older_than="0s") == ([], [])
    assert (await held.refused(KEY, "gina", agent_id="002")).code == 4000
    assert await code(held, ADD, "gina", name="a") == 4000


async def test_on_the_master_from_any_node() -> None:
    for name in (ADD, INSERT, QUICK, DELETE, KEY):
        found = CATALOGUE.get(name)
        assert found is not None
        assert found.place.value == "master"
