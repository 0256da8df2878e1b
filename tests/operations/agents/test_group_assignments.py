"""Which groups agents are in (``/agents/group``, ``/agents/{agent_id}/group``)."""

import hashlib

import pytest
from sqlalchemy import update

from secmon.agents.groups.folders import create_group, delete_group
from secmon.agents.names import group_hash
from secmon.agents.registry import registry
from secmon.agents.registry.schema import agents
from tests.operations.groups.test_groups import enrol, groups_of
from tests.operations.office import Office
from tests.operations.world import World

pytestmark = pytest.mark.anyio

ASSIGN, TAKE = "PUT /agents/group", "DELETE /agents/group"
ASSIGN_ONE, TAKE_ONE = (f"{method} /agents/{{agent_id}}/group/{{group_id}}" for method in ("PUT", "DELETE"))
LEAVE, SYNC = "DELETE /agents/{agent_id}/group", "GET /agents/{agent_id}/group/is_sync"


@pytest.fixture
def office(alone: World) -> Office:
    """Groups db, default, web; agents 001 in default and web, 002 in web, 003 in default, 004 in none."""
    office = Office(alone)
    for name in ("web", "db"):
        create_group(office.node.paths, name)
    enrol(office, "one", "default", "web")
    enrol(office, "two", "web")
    enrol(office, "three", "default")
    enrol(office, "four")
    return office


def assigned(office: Office) -> list[str | None]:
    return [groups_of(office, agent) for agent in (1, 2, 3, 4)]


async def test_assigning_agents(office: Office) -> None:
    body = await office.ask(ASSIGN, group_id="web", agents_list=["004", "001", "003", "999", "000"])
    assert body["data"]["affected_items"] == ["003", "004"]
    failed = [(each["error"]["code"], each["id"]) for each in body["data"]["failed_items"]]
    assert failed == [(1701, ["999"]), (1703, ["000"]), (1751, ["001"])]
    assert assigned(office) == ["default,web", "web", "default,web", "web"]
    assert body["message"] == "Some of the agents were not assigned to the group"


async def test_assigning_all_agents(office: Office) -> None:
    body = await office.ask(ASSIGN, group_id="web")
    assert (body["data"]["affected_items"], body["data"]["failed_items"], body["error"]) == (["003", "004"], [], 0)


async def test_one_revision_for_all(office: Office) -> None:
    before = office.node.agents.revision()
    await office.ask(ASSIGN, group_id="db")
    assert office.node.agents.revision() == before + 1
    assert assigned(office) == ["default,web,db", "web,db", "default,db", "db"]


async def test_a_single_group(office: Office) -> None:
    body = await office.ask(ASSIGN, group_id="web", agents_list=["001", "002", "003", "004"], force_single_group=True)
    assert body["data"]["affected_items"] == ["001", "002", "003", "004"]
    assert assigned(office) == ["web"] * 4


async def test_groups_that_the_caller_may_not_take_agents_out_of(office: Office) -> None:
    await office.caller(
        "narrow",
        ("agent:modify_group", "agent:id:*", "allow"),
        ("group:modify_assignments", "group:id:*", "allow"),
        ("group:modify_assignments", "group:id:web", "deny"),
    )
    failed = await office.failed(ASSIGN, "narrow", group_id="db", agents_list=["001", "003"], force_single_group=True)
    assert failed == [(1752, ["001"])]
    assert assigned(office) == ["default,web", "web", "db", None]
    body = await office.ask(ASSIGN, "narrow", group_id="db", force_single_group=True)
    assert (body["data"]["affected_items"], body["data"]["failed_items"]) == (["003", "004"], [])
    failed = await office.failed(ASSIGN_ONE, "narrow", group_id="db", agent_id="002", force_single_group=True)
    assert failed == [(1752, ["002"])]
    assert (await office.refused(ASSIGN, "narrow", group_id="web", agents_list=["003"])).code == 4000
    assert (await office.refused(TAKE, "narrow", group_id="web", agents_list=["001"])).code == 4000


async def test_agents_that_the_caller_may_not_change(office: Office) -> None:
    await office.caller(
        "narrow", ("agent:modify_group", "agent:id:003", "allow"), ("group:modify_assignments", "group:id:*", "allow")
    )
    assert await office.failed(ASSIGN, "narrow", group_id="db", agents_list=["003", "004"]) == [(4000, ["004"])]
    assert (await office.refused(ASSIGN, "narrow", group_id="db", agents_list=["004"])).code == 4000
    assert (await office.ask(TAKE, "narrow", group_id="db", agents_list=["all"]))["data"]["affected_items"] == ["003"]
    assert (await office.refused(ASSIGN_ONE, "narrow", group_id="db", agent_id="001")).code == 4000


async def test_at_most_128_groups(office: Office) -> None:
    many = tuple(f"g{number}" for number in range(128))
    with office.node.agents.write() as connection:
        registry.assign(connection, {4: many})
    assert await office.failed(ASSIGN, group_id="web", agents_list=["004"]) == [(1737, ["004"])]
    assert await office.failed(ASSIGN_ONE, group_id="web", agent_id="004") == [(1737, ["004"])]


async def test_groups_that_do_not_exist(office: Office) -> None:
    assert (await office.refused(ASSIGN, group_id="none", agents_list=["001"])).code == 1710
    assert (await office.refused(TAKE, group_id="none", agents_list=["001"])).code == 1710
    assert (await office.refused(ASSIGN_ONE, group_id="none", agent_id="001")).code == 1710
    assert (await office.refused(TAKE_ONE, group_id="none", agent_id="001")).code == 1710
    assert (await office.refused(ASSIGN, group_id="x" * 256, agents_list=["001"])).code == 1722


async def test_removing_agents_from_a_group(office: Office) -> None:
    body = await office.ask(TAKE, group_id="web", agents_list=["001", "002", "003", "999"])
    assert body["data"]["affected_items"] == ["001", "002"]
    failed = [(each["error"]["code"], each["id"]) for each in body["data"]["failed_items"]]
    assert failed == [(1701, ["999"]), (1734, ["003"])]
    assert assigned(office) == ["default", "default", "default", None]
    assert await office.failed(TAKE, group_id="default", agents_list=["003"]) == [(1745, ["003"])]


async def test_removing_all_agents_from_a_group(office: Office) -> None:
    body = await office.ask(TAKE, group_id="web", agents_list=["all"])
    assert (body["data"]["affected_items"], body["data"]["failed_items"]) == (["001", "002"], [])


async def test_assigning_one(office: Office) -> None:
    body = await office.ask(ASSIGN_ONE, group_id="db", agent_id="003")
    assert (body["data"]["affected_items"], groups_of(office, 3)) == (["003"], "default,db")
    assert await office.failed(ASSIGN_ONE, group_id="db", agent_id="003") == [(1751, ["003"])]
    assert await office.failed(ASSIGN_ONE, group_id="db", agent_id="000") == [(1703, ["000"])]
    assert await office.failed(ASSIGN_ONE, group_id="db", agent_id="0003") == [(1701, ["0003"])]
    await office.ask(ASSIGN_ONE, group_id="web", agent_id="003", force_single_group=True)
    assert groups_of(office, 3) == "web"


async def test_removing_one_agent_from_a_group(office: Office) -> None:
    body = await office.ask(TAKE_ONE, group_id="web", agent_id="001")
    assert body == {"message": "Agent 001 was taken out of the group web", "error": 0}
    for agent, group, code in (
        ("001", "web", 1734),
        ("001", "default", 1745),
        ("000", "web", 1703),
        ("999", "web", 1701),
    ):
        assert (await office.refused(TAKE_ONE, group_id=group, agent_id=agent)).code == code
    await office.ask(TAKE_ONE, group_id="web", agent_id="002")
    assert assigned(office)[:2] == ["default", "default"]


async def test_leaving_groups(office: Office) -> None:
    await office.ask(ASSIGN, group_id="db", agents_list=["001"])
    body = await office.ask(LEAVE, agent_id="001", groups_list=["default", "db", "none", "web"])
    assert body["data"]["affected_items"] == ["db", "web"]
    failed = [(each["error"]["code"], each["id"]) for each in body["data"]["failed_items"]]
    assert failed == [(1710, ["none"]), (1745, ["default"])]
    assert groups_of(office, 1) == "default"
    assert await office.failed(LEAVE, agent_id="001", groups_list=["web"]) == [(1734, ["web"])]


async def test_leaving_all_groups(office: Office) -> None:
    body = await office.ask(LEAVE, agent_id="001")
    assert (body["data"]["affected_items"], body["data"]["failed_items"], body["error"]) == (["web"], [], 0)
    body = await office.ask(LEAVE, agent_id="002")
    assert (body["data"]["affected_items"], groups_of(office, 2)) == (["web"], "default")
    body = await office.ask(LEAVE, agent_id="003")
    assert (body["data"]["affected_items"], body["data"]["failed_items"], body["error"]) == ([], [], 0)
    assert (await office.refused(LEAVE, agent_id="000")).code == 1703
    assert (await office.refused(LEAVE, agent_id="999")).code == 1701


async def test_leaving_a_deleted_group(office: Office) -> None:
    delete_group(office.node.paths, "web")
    assert (await office.ask(LEAVE, agent_id="001", groups_list=["web"]))["data"]["affected_items"] == ["web"]


async def test_leaving_groups_that_the_caller_may_change(office: Office) -> None:
    await office.caller(
        "narrow", ("agent:modify_group", "agent:id:*", "allow"), ("group:modify_assignments", "group:id:web", "allow")
    )
    assert (await office.ask(LEAVE, "narrow", agent_id="001"))["data"]["affected_items"] == ["web"]
    assert await office.failed(LEAVE, "narrow", agent_id="002", groups_list=["db", "web"]) == [(4000, ["db"])]
    assert (await office.refused(LEAVE, "narrow", agent_id="002", groups_list=["db"])).code == 4000


async def test_synchronized(office: Office) -> None:
    data = b"#web\n!1 a\nb"
    (office.node.paths.shared / "web/merged.mg").write_bytes(data)
    combined = office.node.paths.multigroups / group_hash("default,web")
    combined.mkdir()
    (combined / "merged.mg").write_bytes(data)
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    with office.node.agents.write() as connection:
        connection.execute(update(agents).where(agents.c.id < 3).values(merged_sum=digest))
    for agent, synced in (("001", True), ("002", True), ("003", False), ("004", False)):
        assert await office.one(SYNC, agent_id=agent) == {"id": agent, "synced": synced}
    (combined / "merged.mg").write_bytes(data + b"!0 x\n")
    assert await office.one(SYNC, agent_id="001") == {"id": "001", "synced": False}
    assert await office.failed(SYNC, agent_id="999") == [(1701, ["999"])]
    assert await office.failed(SYNC, agent_id="000") == [(1703, ["000"])]
    assert (await office.refused(SYNC, "nobody", agent_id="001")).code == 4000
