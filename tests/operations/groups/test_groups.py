"""Groups: who sees, makes and deletes them."""

import hashlib
from pathlib import Path

import pytest

from secmon.agents.groups.folders import create_group
from secmon.agents.registry import registry
from secmon.cluster.catalogue import CATALOGUE
from secmon.cluster.parameters import ParameterError, build, read_text
from tests.operations.office import Office
from tests.operations.world import World

pytestmark = pytest.mark.anyio

LIST, MAKE, DELETE = "GET /groups", "POST /groups", "DELETE /groups"
MEMBERS = "GET /groups/{group_id}/agents"


def enrol(office: Office, name: str, *groups: str) -> int:
    with office.node.agents.write() as connection:
        return registry.add(connection, registry.New(name=name, groups=groups), now=0).entry.id


def groups_of(office: Office, agent: int) -> str | None:
    with office.node.agents.read() as connection:
        entry = registry.find(connection, agent)
        return entry.group if entry else None


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


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


async def test_all_groups(office: Office) -> None:
    shared = office.node.paths.shared
    (shared / "web/merged.mg").write_bytes(b"#web\n")
    (shared / "no group").mkdir()
    body = await office.ask(LIST)
    assert body["data"]["affected_items"] == [
        {"name": "db", "count": 0, "configSum": md5(shared / "db/agent.conf")},
        {"name": "default", "count": 2, "configSum": md5(shared / "default/agent.conf")},
        {
            "name": "web",
            "count": 2,
            "mergedSum": md5(shared / "web/merged.mg"),
            "configSum": md5(shared / "web/agent.conf"),
        },
    ]
    assert body["message"] == "All the groups were read"


async def test_which_groups(office: Office) -> None:
    body = await office.ask(LIST, groups_list=["web", "none", "db"], sort="-name", select=["count"])
    assert body["data"]["affected_items"] == [{"name": "web", "count": 2}, {"name": "db", "count": 0}]
    assert [(each["error"]["code"], each["id"]) for each in body["data"]["failed_items"]] == [(1710, ["none"])]
    body = await office.ask(LIST, q="count>1", hash="sha256", limit=1)
    assert body["data"]["total_affected_items"] == 2
    assert [len(item["configSum"]) for item in body["data"]["affected_items"]] == [64]


async def test_only_groups_that_the_caller_may_read(office: Office) -> None:
    await office.caller("narrow", ("group:read", "group:id:web", "allow"))
    body = await office.ask(LIST, "narrow")
    assert [item["name"] for item in body["data"]["affected_items"]] == ["web"]
    assert await office.failed(LIST, "narrow", groups_list=["web", "db"]) == [(4000, ["db"])]
    assert (await office.refused(LIST, "narrow", groups_list=["db"])).code == 4000
    await office.caller("nobody-at-all")
    assert (await office.ask(LIST, "nobody-at-all"))["data"]["affected_items"] == []


async def test_creating_groups(office: Office) -> None:
    body = await office.ask(MAKE, body={"group_id": "mail.eu_1-a"})
    assert body == {"message": "The group mail.eu_1-a was made", "error": 0}
    assert (office.node.paths.shared / "mail.eu_1-a/agent.conf").is_file()
    for name, code in (("web", 1711), ("default", 1711), ("Default", 1711), ("ar.conf", 1713), ("files.yml", 1713)):
        assert (await office.refused(MAKE, body={"group_id": name})).code == code
    assert (await office.refused(MAKE, "nobody", body={"group_id": "x"})).code == 4000


@pytest.mark.parametrize("name", ["", "..", "all", "a b", "a/b", "ä", "x" * 129, 3])
async def test_names_that_are_refused(office: Office, name: object) -> None:
    operation = CATALOGUE.get(MAKE)
    assert operation is not None
    with pytest.raises(ParameterError):
        build(operation.params, {"body": {"group_id": name}})


async def test_deleting_groups(office: Office) -> None:
    body = await office.ask(DELETE, groups_list=["web", "db", "none", "default"])
    assert body["data"]["affected_items"] == ["web", "db"]
    assert body["data"]["affected_agents"] == ["001", "002"]
    failed = [(each["error"]["code"], each["id"]) for each in body["data"]["failed_items"]]
    assert failed == [(1710, ["none"]), (1712, ["default"])]
    assert body["error"] == 2
    assert [groups_of(office, agent) for agent in (1, 2, 3, 4)] == ["default", "default", "default", None]
    assert [path.name for path in office.node.paths.shared.iterdir() if path.is_dir()] == ["default"]


async def test_deleting_all_permitted_groups(office: Office) -> None:
    await office.caller("narrow", ("group:delete", "group:id:*", "allow"), ("group:delete", "group:id:db", "deny"))
    body = await office.ask(DELETE, "narrow", groups_list=["all"])
    assert (body["data"]["affected_items"], body["data"]["failed_items"], body["error"]) == (["web"], [], 0)
    body = await office.ask(DELETE, "narrow", groups_list=["db", "default"])
    assert (body["data"]["affected_items"], body["data"]["affected_agents"], body["error"]) == ([], [], 1)
    assert (await office.refused(DELETE, "narrow", groups_list=["db"])).code == 4000
    assert (office.node.paths.shared / "db").is_dir()


async def test_a_group_that_cannot_be_deleted_keeps_its_agents(office: Office) -> None:
    folder = office.node.paths.shared / "web"
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")
    assert await office.failed(DELETE, groups_list=["web"]) == [(1710, ["web"])]
    assert groups_of(office, 1) == "default,web"


async def test_members(office: Office) -> None:
    body = await office.ask(MEMBERS, group_id="web", select=["name"], sort="-id")
    assert body["data"]["affected_items"] == [{"id": "002", "name": "two"}, {"id": "001", "name": "one"}]
    body = await office.ask(MEMBERS, group_id="web", status=["active"])
    assert (body["data"]["total_affected_items"], body["error"]) == (0, 0)
    body = await office.ask(MEMBERS, group_id="web", q="id=2")
    assert [item["id"] for item in body["data"]["affected_items"]] == ["002"]
    assert (await office.ask(MEMBERS, group_id="db"))["data"]["affected_items"] == []
    assert (await office.refused(MEMBERS, group_id="none")).code == 1710
    assert (await office.refused(MEMBERS, group_id="WEB")).code == 1710


async def test_members_that_the_caller_may_read(office: Office) -> None:
    statements = (("group:read", "group:id:web", "allow"), ("agent:read", "agent:id:001", "allow"))
    await office.caller("narrow", *statements)
    body = await office.ask(MEMBERS, "narrow", group_id="web")
    assert [item["id"] for item in body["data"]["affected_items"]] == ["001"]
    assert (await office.refused(MEMBERS, "narrow", group_id="db")).code == 4000


@pytest.mark.parametrize(
    ("name", "query", "path", "good"),
    [
        (LIST, [("groups_list", "a,b")], {}, True),
        (LIST, [("groups_list", "all")], {}, False),
        (LIST, [("hash", "SHA256")], {}, True),
        (LIST, [("hash", "crc32")], {}, False),
        (DELETE, [("groups_list", "all")], {}, True),
        (DELETE, [], {}, False),
        (DELETE, [("groups_list", "..")], {}, False),
        (MEMBERS, [("status", "active,pending")], {"group_id": "web"}, True),
        (MEMBERS, [("status", "gone")], {"group_id": "web"}, False),
        (MEMBERS, [], {"group_id": "all"}, False),
    ],
)
def test_parameters(name: str, query: list[tuple[str, str]], path: dict[str, str], good: bool) -> None:
    operation = CATALOGUE.get(name)
    assert operation is not None
    if good:
        operation.build(read_text(operation.parameters, query, path))
    else:
        with pytest.raises(ParameterError):
            operation.build(read_text(operation.parameters, query, path))


async def test_a_worker_asks_the_master(cluster: World) -> None:
    create_group(cluster.nodes["alpha"].node.paths, "web")
    items = (await cluster.outcome(LIST, at="beta")).items
    assert [item["name"] for item in items] == ["default", "web"]
