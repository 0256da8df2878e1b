"""Reading agents: filters, permissions, shapes, and where it runs (conventions.md 1.4, 5.8, 13)."""

from typing import Any

import pytest

from secmon.cluster.catalogue import CATALOGUE
from secmon.cluster.parameters import ParameterError, build, read_text
from secmon.common.errors import SecmonError
from tests.agents.rows import agent, put, shown
from tests.operations.office import Office
from tests.operations.world import Running, World

pytestmark = pytest.mark.anyio

LIST, UNGROUPED, OUTDATED = (f"GET /agents{path}" for path in ("", "/no_group", "/outdated"))
OVERVIEW = "GET /overview/agents"
DISTINCT, PLATFORMS, SUMMARY = (f"GET /agents/{path}" for path in ("stats/distinct", "summary/os", "summary/status"))
NOW = 1767225600  # the clock of the world: 2026-01-01
HELD = [
    agent(
        1, name="web-01", register_ip="any", ip="10.0.0.11", version="Wazuh v4.8.2", group="default,web",
        connection_status="active", group_config_status="synced", last_keepalive=NOW - 10, date_add=NOW - 86400,
        node_name="beta", manager_host="m1", os_platform="ubuntu", os_name="Ubuntu", os_version="22.04.3 LTS",
        config_sum="a" * 32, merged_sum="b" * 32,
    ),
    agent(
        2, name="web-02", register_ip="10.0.0.12", version="Wazuh v4.7.0", group="default",
        connection_status="disconnected", status_code=4, last_keepalive=NOW - 5000, disconnection_time=NOW - 4000,
        date_add=NOW - 2 * 86400, node_name="beta", os_platform="windows", os_name="Windows 11",
    ),
    agent(3, name="db-01", register_ip="10.0.0.0/24", date_add=NOW - 9 * 86400),
    agent(
        1000, name="mac", version="v4.9.0", connection_status="pending", status_code=1, last_keepalive=NOW,
        group="web", date_add=NOW, node_name="alpha", os_platform="ubuntu",
    ),
]  # fmt: skip


def fill(running: Running) -> None:
    for group in ("default", "web"):
        (running.node.paths.shared / group).mkdir(exist_ok=True)
    with running.node.agents.write() as connection:
        put(connection, HELD)


@pytest.fixture
def office(alone: World) -> Office:
    fill(alone.nodes["manager"])
    return Office(alone)


async def listed(office: Office, user: str = "admin", /, operation: str = LIST, **params: Any) -> str:
    body = await office.world.same_as_text(operation, user, **params)
    assert body["data"]["total_affected_items"] == len(body["data"]["affected_items"])
    return " ".join(item["id"] for item in body["data"]["affected_items"])


async def test_agents_are_counted_by_status_platform_and_group(office: Office) -> None:
    assert (await office.ask("GET /agents/summary"))["data"] == {
        "status": {"active": 1, "disconnected": 1, "never_connected": 1, "pending": 1},
        "os": {"ubuntu": 2, "windows": 1},
        "groups": {"default": 2, "web": 2},
    }
    await office.caller("webs", ("agent:read", "agent:group:web", "allow"))
    for asked in ({}, {"agents_list": ["001", "002", "1000", "999"]}):
        assert (await office.ask("GET /agents/summary", "webs", **asked))["data"] == {
            "status": {"active": 1, "disconnected": 0, "never_connected": 0, "pending": 1},
            "os": {"ubuntu": 2},
            "groups": {"default": 1, "web": 2},
        }
    assert (await office.refused("GET /agents/summary", "webs", agents_list=["002"])).code == 4000


async def test_whole_items(office: Office) -> None:
    body = await office.ask(LIST)
    own, *others = body["data"]["affected_items"]
    assert others == [shown(row) for row in HELD]
    assert others[0]["dateAdd"] == "2025-12-31T00:00:00+00:00"
    assert others[1]["disconnection_time"] == "2025-12-31T22:53:20+00:00"
    assert (own["id"], own["node_name"], own["status"], own["ip"]) == ("000", "manager", "active", "127.0.0.1")
    assert own["dateAdd"] == "2026-01-01T00:00:00+00:00"
    assert own["lastKeepAlive"] == "9999-12-31T23:59:59+00:00"
    assert (body["error"], body["message"]) == (0, "All the agents were read")


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"status": ["active"]}, "000 001"),
        ({"status": ["pending", "never_connected"]}, "003 1000"),
        ({"older_than": "1h"}, "002 003"),
        ({"older_than": "3600"}, "002 003"),
        ({"older_than": "7d"}, "003"),
        ({"older_than": "0s", "status": ["pending"]}, "1000"),
        ({"os.platform": "UBUNTU"}, "001 1000"),
        ({"os.version": "22.04.3 lts"}, "001"),
        ({"os.name": "Windows 11"}, "002"),
        ({"manager": "M1"}, "001"),
        ({"version": "4.8.2"}, "000 001"),
        ({"version": "wazuh 4.8.2"}, "001"),
        ({"version": "v4.9.0"}, "1000"),
        ({"version": "null"}, "003"),
        ({"group": "WEB"}, "001 1000"),
        ({"group": "we"}, ""),
        ({"group": "null"}, "000 003"),
        ({"node_name": "beta"}, "001 002"),
        ({"name": "Web-01"}, "001"),
        ({"name": "all"}, ""),
        ({"ip": "10.0.0.12"}, "002"),
        ({"registerIP": "10.0.0.12"}, "002"),
        ({"registerIP": "any", "status": ["active"]}, "001"),
        ({"group_config_status": "synced"}, "000 001"),
        ({"q": "status_code>0", "sort": "-status_code"}, "002 1000"),
        ({"q": "group=default;group=web"}, "001"),
        ({"search": "web-0"}, "001 002"),
        ({"search": "-web"}, "000 003"),
        ({"agents_list": ["1000", "000", "002"]}, "000 002 1000"),
        ({"agents_list": ["001", "002"], "q": "id>0,id=3", "status": ["active"]}, "001"),
        ({"sort": "-id"}, "1000 003 002 001 000"),
        ({"q": "disconnection_time>0"}, "002"),
    ],
    ids=str,
)
async def test_filters(office: Office, params: dict[str, Any], expected: str) -> None:
    assert await listed(office, **params) == expected


async def test_pages(office: Office) -> None:
    body = await office.ask(LIST, q="id>0", sort="-name", offset=1, limit=2, select=["name"])
    assert body["data"]["affected_items"] == [{"id": "001", "name": "web-01"}, {"id": "1000", "name": "mac"}]
    assert body["data"]["total_affected_items"] == 4
    beyond = await office.ask(LIST, offset=10)
    assert (beyond["data"]["affected_items"], beyond["data"]["total_affected_items"], beyond["error"]) == ([], 5, 0)


async def test_select_and_distinct(office: Office) -> None:
    body = await office.ask(LIST, select=["os.name", "group"], q="id=1,id=3")
    assert body["data"]["affected_items"] == [
        {"id": "001", "group": ["default", "web"], "os": {"name": "Ubuntu"}},
        {"id": "003"},
    ]
    body = await office.ask(LIST, select=["node_name"], distinct=True)
    assert [item["node_name"] for item in body["data"]["affected_items"]] == ["manager", "beta", "unknown", "alpha"]


async def test_unknown_ids_fail_beside_the_others(office: Office) -> None:
    body = await office.ask(LIST, agents_list=["001", "999", "0001"])
    assert [item["id"] for item in body["data"]["affected_items"]] == ["001"]
    [failed] = body["data"]["failed_items"]
    assert (failed["error"]["code"], failed["id"]) == (1701, ["0001", "999"])
    assert (body["error"], body["message"]) == (2, "Some of the agents could not be read")
    body = await office.ask(LIST, agents_list=["999"])
    assert (body["error"], body["data"]["total_failed_items"]) == (1, 1)


async def test_an_id_that_other_filters_exclude_does_not_fail(office: Office) -> None:
    body = await office.ask(LIST, agents_list=["001"], status=["pending"])
    assert (body["error"], body["data"]["total_affected_items"], body["data"]["failed_items"]) == (0, 0, [])


@pytest.mark.parametrize(
    "text",
    [
        *("agents_list=1", "agents_list=all", "agents_list=x01", "status=foo", "older_than=1d12h", "older_than=x"),
        *("group=all", "group=..", "group=a%20b", "search=a*b", "search=a>b", "os.platform=a;b", "node_name=a%20b"),
        *("limit=0", "limit=100001", "offset=-1", "select=name,", "group_config_status=unknown", "os_platform=x"),
    ],
)
async def test_refused_parameters(text: str) -> None:
    operation = CATALOGUE.get(LIST)
    assert operation is not None
    with pytest.raises(ParameterError):
        read_text(operation.parameters, [tuple(text.replace("%20", " ").split("="))], {})  # type: ignore[list-item]


async def test_parameters_with_dots_keep_their_names() -> None:
    operation = CATALOGUE.get(LIST)
    assert operation is not None
    values = read_text(operation.parameters, [("os.platform", "ubuntu"), ("status", "Active")], {})
    assert values == {"os.platform": "ubuntu", "status": ["active"]}
    assert build(operation.params, values).os_platform == "ubuntu"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"q": "foo=1"}, 1408),
        ({"q": "internal_key~k"}, 1408),
        ({"q": "group<a"}, 1409),
        ({"q": "lastKeepAlive<x"}, 1412),
        ({"sort": "count"}, 1403),
        ({"select": ["internal_key"]}, 1724),
        ({"select": ["os"]}, 1724),
    ],
    ids=str,
)
async def test_refused_queries(office: Office, params: dict[str, Any], code: int) -> None:
    assert (await office.refused(LIST, **params)).code == code


class TestPermissions:
    async def test_some_ids(self, office: Office) -> None:
        await office.caller("robert", ("agent:read", "agent:id:001", "allow"), ("agent:read", "agent:id:000", "allow"))
        assert await listed(office, "robert") == "000 001"
        assert await listed(office, "robert", q="id>0") == "001"
        body = await office.ask(LIST, "robert", agents_list=["001", "002", "777"])
        assert [item["id"] for item in body["data"]["affected_items"]] == ["001"]
        [failed] = body["data"]["failed_items"]
        assert (failed["error"]["code"], failed["id"]) == (4000, ["002", "777"])
        refused = await office.refused(LIST, "robert", agents_list=["002"])
        assert refused.code == 4000

    async def test_all_but_some(self, office: Office) -> None:
        await office.caller("evelyn", ("agent:read", "agent:id:*", "allow"), ("agent:read", "agent:id:002", "deny"))
        assert await listed(office, "evelyn") == "000 001 003 1000"
        assert await listed(office, "evelyn", q="name~web,id=2") == "001"
        body = await office.ask(SUMMARY, "evelyn")
        assert body["data"]["connection"]["total"] == 3
        assert (await office.ask(PLATFORMS, "evelyn"))["data"]["affected_items"] == ["ubuntu"]

    async def test_groups(self, office: Office) -> None:
        await office.caller("webber", ("agent:read", "agent:group:web", "allow"))
        assert await listed(office, "webber") == "001 1000"
        body = await office.ask(LIST, "webber", agents_list=["1000", "003"])
        assert [item["id"] for item in body["data"]["affected_items"]] == ["1000"]
        await office.caller("other", ("agent:read", "agent:id:*", "allow"), ("agent:read", "agent:group:web", "deny"))
        assert await listed(office, "other") == "000 002 003"

    async def test_nothing_is_empty_and_no_error(self, office: Office) -> None:
        for operation in (LIST, UNGROUPED, OUTDATED, DISTINCT, PLATFORMS):
            body = await office.ask(operation, "nobody")
            assert (body["error"], body["data"]["affected_items"], body["data"]["total_affected_items"]) == (0, [], 0)
        body = await office.ask(SUMMARY, "nobody")
        assert body["data"]["connection"] | body["data"]["configuration"] == dict.fromkeys(
            (*("active", "disconnected", "never_connected", "pending", "total"), "synced", "not_synced"), 0
        )

    async def test_uninstalling_is_an_action_of_its_own(self, office: Office) -> None:
        body = await office.ask("GET /agents/uninstall")
        assert set(body) == {"message", "error"}
        assert (await office.refused("GET /agents/uninstall", "nobody")).code == 4000


async def test_without_group(office: Office) -> None:
    assert await listed(office, operation=UNGROUPED) == "003"
    assert await listed(office, operation=UNGROUPED, q="id<3") == ""


async def test_outdated(office: Office) -> None:
    body = await office.ask(OUTDATED)
    assert body["data"]["affected_items"] == [
        {"id": "002", "name": "web-02", "version": "Wazuh v4.7.0"},
        {"id": "1000", "name": "mac", "version": "v4.9.0"},
    ]
    assert await listed(office, operation=OUTDATED, sort="-name", limit=5, q="name~b") == "002"


async def test_combinations(office: Office) -> None:
    body = await office.ask(DISTINCT, fields=["group"])
    counted = [(item["group"], item["count"]) for item in body["data"]["affected_items"]]
    assert counted == [("unknown", 2), (["default", "web"], 1), (["default"], 1), (["web"], 1)]
    body = await office.ask(DISTINCT, fields=["os.platform", "status"], q="id>0", sort="-os.platform")
    assert body["data"]["affected_items"] == [
        {"os": {"platform": "windows"}, "status": "disconnected", "count": 1},
        {"os": {"platform": "ubuntu"}, "status": "active", "count": 1},
        {"os": {"platform": "ubuntu"}, "status": "pending", "count": 1},
        {"os": {"platform": "unknown"}, "status": "never_connected", "count": 1},
    ]
    body = await office.ask(DISTINCT, fields=["node_name"], sort="-count", limit=1)
    assert (body["data"]["affected_items"], body["data"]["total_affected_items"]) == (
        [{"node_name": "beta", "count": 2}],
        4,
    )
    assert (await office.ask(DISTINCT))["data"]["total_affected_items"] == 5
    assert (await office.refused(DISTINCT, fields=["internal_key"])).code == 1724


async def test_summaries_leave_out_the_manager(office: Office) -> None:
    body = await office.ask(SUMMARY)
    assert body == {
        "data": {
            "connection": {"active": 1, "disconnected": 1, "never_connected": 1, "pending": 1, "total": 4},
            "configuration": {"synced": 1, "not_synced": 3, "total": 4},
        },
        "error": 0,
    }
    assert (await office.ask(PLATFORMS))["data"]["affected_items"] == ["ubuntu", "windows"]


async def test_the_overview(office: Office) -> None:
    body = await office.ask(OVERVIEW)
    assert set(body) == {"data", "error"}
    data = body["data"]
    assert data["nodes"] == [
        {"node_name": "manager", "count": 1},
        {"node_name": "beta", "count": 2},
        {"node_name": "unknown", "count": 1},
        {"node_name": "alpha", "count": 1},
    ]
    assert [(one["name"], one["count"]) for one in data["groups"]] == [("default", 2), ("web", 2)]
    assert data["agent_os"][1:] == [
        {"os": {"name": "Windows 11", "platform": "windows", "version": "unknown"}, "count": 1},
        {"os": {"name": "unknown", "platform": "unknown", "version": "unknown"}, "count": 1},
        {"os": {"name": "unknown", "platform": "ubuntu", "version": "unknown"}, "count": 1},
    ]
    assert data["agent_status"] == (await office.ask(SUMMARY))["data"]
    assert [one["version"] for one in data["agent_version"]] == ["Wazuh v4.8.2", "Wazuh v4.7.0", "unknown", "v4.9.0"]
    assert [one["id"] for one in data["last_registered_agent"]] == ["1000"]


async def test_the_overview_shows_agents_and_groups_that_may_be_seen(office: Office) -> None:
    await office.caller("robert", ("agent:read", "agent:id:002", "allow"), ("group:read", "group:id:web", "allow"))
    data = (await office.ask(OVERVIEW, "robert"))["data"]
    assert data["nodes"] == [{"node_name": "beta", "count": 1}]
    assert [(one["name"], one["count"]) for one in data["groups"]] == [("web", 2)]
    assert [one["id"] for one in data["last_registered_agent"]] == ["002"]
    data = (await office.ask(OVERVIEW, "nobody"))["data"]
    assert [data[name] for name in data if name != "agent_status"] == [[]] * 5
    assert data["agent_status"]["connection"]["total"] == 0


async def test_a_worker_asks_the_master(cluster: World) -> None:
    fill(cluster.nodes["alpha"])
    body = await cluster.body(LIST, at="beta", agents_list=["000", "001"], select=["node_name"])
    assert body["data"]["affected_items"] == [{"id": "000", "node_name": "alpha"}, {"id": "001", "node_name": "beta"}]
    with pytest.raises(SecmonError):
        await cluster.run(LIST, at="beta", q="nonsense")


async def test_invalid_rows_do_not_fail_the_request(office: Office) -> None:
    false = {"connection_status": "asleep", "last_keepalive": 2**40, "disconnection_time": 2**62}
    with office.node.agents.write() as connection:
        put(connection, [agent(7, name="odd", group_config_status="perhaps", date_add=NOW, **false)])
    [odd] = (await office.ask(LIST, agents_list=["007"]))["data"]["affected_items"]
    assert odd["status"] == "asleep"
    assert not {"lastKeepAlive", "disconnection_time"} & set(odd)
    for operation in (SUMMARY, OVERVIEW, OUTDATED, UNGROUPED):
        assert (await office.ask(operation))["error"] == 0
    assert (await office.ask(DISTINCT, fields=["lastKeepAlive"]))["error"] == 0
