"""Upgrades requested and followed through the API (agent-link.md 10, manager.md 14)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from msgspec import structs

from secmon.agents.tasks import lifecycle
from secmon.agents.tasks.lifecycle import Work
from secmon.agents.tasks.schema import tasks
from secmon.agents.wakeups import WakeupListener
from secmon.cluster.call import Call
from secmon.cluster.parameters import ParameterError, read_text
from secmon.common.errors import SecmonError
from secmon.common.outcome import Plain
from secmon.config.main import parse_main_config
from secmon.operations.all import CATALOGUE, EXECUTABLE
from tests.agents.rows import agent, put
from tests.operations.office import Office
from tests.operations.world import World
from tests.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.anyio

UPGRADE, CUSTOM, RESULT = "PUT /agents/upgrade", "PUT /agents/upgrade_custom", "GET /agents/upgrade_result"
STATUS = "GET /tasks/status"
NOW = 1767225600  # the clock of the world: 2026-01-01


def linux(number: int, version: str | None = "Wazuh v4.7.0", node: str = "beta", **values: Any) -> dict[str, Any]:
    known = {"os_platform": "ubuntu", "os_major": "22", "os_minor": "04", "os_arch": "x86_64", "version": version}
    return agent(number, node_name=node, **(known | {"connection_status": "active"} | values))


HELD = [
    linux(1, node="alpha", group="default"),
    linux(2, "Wazuh v4.8.2"),
    linux(3, os_platform="sunos"),
    linux(4, "Wazuh v2.1.0"),
    linux(5, os_arch=None),
    linux(6, connection_status="disconnected"),
    linux(7, group="web"),
    linux(1000, group="web"),
]


@pytest.fixture
def empty_world(tmp_path: Path, security_db: Path) -> Iterator[World]:
    world = World(tmp_path, security_db, catalogue=EXECUTABLE)
    yield world
    world.close()


@pytest.fixture
def office(empty_world: World) -> Office:
    """The master alpha and the worker beta."""
    for name in ("alpha", "beta"):
        empty_world.start(name)
    office = Office(empty_world)
    with office.node.agents.write() as connection:
        put(connection, HELD)
    return office


def failed(body: dict[str, Any]) -> list[tuple[int, list[str]]]:
    return [(entry["error"]["code"], entry["id"]) for entry in body["data"]["failed_items"]]


def items(body: dict[str, Any]) -> list[tuple[str, int]]:
    return [(item["agent"], item["task_id"]) for item in body["data"]["affected_items"]]


async def internal(office: Office, operation: str, **params: Any) -> Any:
    """As a worker asks its master."""
    running = office.world.nodes["beta"]
    call: Call = office.world.call(f"PUT /internal/upgrades/{operation}", "admin", params, on=running)
    result = await running.router.route(call)
    assert isinstance(result, Plain)
    return result.data


def works(office: Office) -> dict[int, tuple[str, str]]:
    """Node and work by agent."""
    with office.node.tasks.read() as connection:
        rows = connection.execute(sa.select(tasks.c.agent_id, tasks.c.node, tasks.c.work))
        return {number: (node, work) for number, node, work in rows}


async def test_every_agent_is_checked_by_itself(office: Office) -> None:
    body = await office.ask(UPGRADE, agents_list=["1000", "001", "002", "003", "004", "005", "006", "000", "999"])
    assert items(body) == [("001", 1), ("1000", 2)]
    assert failed(body) == [
        (1701, ["999"]), (1703, ["000"]), (1707, ["006"]), (1816, ["005"]), (1819, ["003"]), (1821, ["004"]),
        (1822, ["002"]),
    ]  # fmt: skip
    assert body["error"] == 2
    assert works(office) == {1: ("alpha", "{}"), 1000: ("beta", "{}")}
    again = await office.ask(UPGRADE, agents_list=["001", "007"])
    assert (items(again), failed(again)) == ([("007", 3)], [(1820, ["001"])])


async def test_the_node_of_the_agents_is_woken(office: Office, empty_world: World) -> None:
    wakeups = WakeupListener(empty_world.nodes["beta"].node.paths.upgrades_socket)
    await wakeups.wait(0.01)
    try:
        await office.ask(UPGRADE, agents_list=["007"])
        async with asyncio.timeout(LIMIT_SECONDS):
            await wakeups.wait(3600)
    finally:
        wakeups.close()


async def test_all_agents(office: Office) -> None:
    body = await office.ask(UPGRADE, agents_list=["all"])
    assert [one for one, _ in items(body)] == ["001", "007", "1000"]
    assert (failed(body), body["error"]) == ([(1816, ["005"])], 2)


async def test_conditions(office: Office) -> None:
    body = await office.ask(UPGRADE, agents_list=["001", "006", "007", "1000"], group="web", q="id>10")
    assert [one for one, _ in items(body)] == ["1000"]
    assert failed(body) == [(1707, ["006"]), (1731, ["001", "007"])]
    assert "group=web; q=id>10" in body["data"]["failed_items"][1]["error"]["message"]
    body = await office.ask(UPGRADE, agents_list=["all"], group="web")
    assert ([one for one, _ in items(body)], failed(body)) == (["007"], [])
    assert (await office.refused(UPGRADE, agents_list=["all"], q="x=1")).code == 1408


async def test_versions(office: Office) -> None:
    refused = await office.refused(UPGRADE, agents_list=["001", "007"], upgrade_version="4.15.0")
    assert (refused.code, refused.kind.status) == (1823, 400)
    assert "v4.15.0 is above 4.14" in refused.message
    assert works(office) == {}
    await office.ask(UPGRADE, agents_list=["001"], upgrade_version="4.15.0", force=True)
    await office.ask(UPGRADE, agents_list=["002"], force=True, use_http=True, wpk_repo="packages.example/4.x/wpk/")
    await office.ask(UPGRADE, agents_list=["007"], upgrade_version="Wazuh v4.8.0")
    assert {number: work for number, (_, work) in works(office).items()} == {
        1: '{"version":"v4.15.0"}',
        2: '{"repository":"packages.example/4.x/wpk/","http":true}',
        7: '{"version":"v4.8.0"}',
    }
    assert failed(await office.ask(UPGRADE, agents_list=["1000"], upgrade_version="v4.6.0")) == [(1822, ["1000"])]


async def test_custom_packages(office: Office) -> None:
    root = office.node.paths.root
    body = await office.ask(CUSTOM, agents_list=["002", "004"], file_path=f"{root}/var/x/own.wpk", installer="go.sh")
    assert ([one for one, _ in items(body)], failed(body)) == (["002"], [(1821, ["004"])])
    assert works(office) == {2: ("beta", '{"file":"var/x/own.wpk","installer":"go.sh"}')}
    await office.ask(CUSTOM, agents_list=["007"], file_path="./var/own.wpk")
    assert works(office)[7][1] == '{"file":"var/own.wpk"}'
    for path in ("/etc/own.wpk", f"{root}x/own.wpk"):
        assert (await office.refused(CUSTOM, agents_list=["001"], file_path=path)).code == 1006


async def test_repository_in_a_folder(office: Office) -> None:
    await office.ask(UPGRADE, agents_list=["001"], wpk_repo=f"{office.node.paths.root}/var/mirror")
    assert works(office)[1][1] == '{"repository":"./var/mirror"}'
    assert (await office.refused(UPGRADE, agents_list=["007"], wpk_repo="/etc")).code == 1006


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (UPGRADE, "wpk_repo=../x"), (UPGRADE, "wpk_repo=a b"), (UPGRADE, "upgrade_version=4.8"),
        (UPGRADE, "upgrade_version=x4.8.0"), (UPGRADE, "older_than=7d"), (UPGRADE, "limit=3"),
        (CUSTOM, "file_path=/x/own.zip"), (CUSTOM, "file_path=/x/../own.wpk"), (CUSTOM, "file_path=/x/.wpk"),
        (RESULT, "agents_list=all"),
    ],
)  # fmt: skip
async def test_refused_parameters(operation: str, text: str) -> None:
    declared = CATALOGUE.get(operation)
    assert declared is not None
    given = [("agents_list", "001"), tuple(text.split("=", 1))]
    with pytest.raises(ParameterError):
        read_text(declared.parameters, given, {})  # type: ignore[arg-type]


async def test_permissions(office: Office) -> None:
    await office.caller("ulrike", ("agent:upgrade", "agent:id:001", "allow"))
    assert items(await office.ask(UPGRADE, "ulrike", agents_list=["all"])) == [("001", 1)]
    assert failed(await office.ask(RESULT, "ulrike", agents_list=["001", "007"])) == [(4000, ["007"])]
    assert (await office.refused(UPGRADE, "ulrike", agents_list=["007"])).code == 4000
    assert (await office.refused(STATUS, "ulrike")).code == 4000


async def test_disabled(office: Office) -> None:
    text = "<ossec_config><agent-upgrade><enabled>no</enabled></agent-upgrade></ossec_config>"
    office.node.main_config = structs.replace(office.node.main_config, sections=parse_main_config(text).sections)
    assert (await office.refused(UPGRADE, agents_list=["001"])).code == 1121


async def test_results(office: Office) -> None:
    await office.ask(UPGRADE, agents_list=["001", "007", "1000"], at="beta")
    assert (await office.one(RESULT, agents_list=["001"])) == {
        "message": "Success", "agent": "001", "task_id": 1, "node": "alpha", "module": "upgrade_module",
        "command": "upgrade", "status": "In queue", "create_time": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    office.world.clock.advance(60)
    assert [job["agent_id"] for job in await internal(office, "take", limit=9)] == [7, 1000]
    assert await internal(office, "finish", task=2, error="Send open file error")
    assert await internal(office, "report", agent=1000)
    assert not await internal(office, "report", agent=1000)
    body = await office.ask(RESULT)
    shown = [(one["agent"], one["status"], one.get("update_time")) for one in body["data"]["affected_items"]]
    assert shown == [
        ("001", "In queue", None),
        ("007", "Error", "2026-01-01T00:01:00Z"),
        ("1000", "Updated", "2026-01-01T00:01:00Z"),
    ]
    assert body["data"]["affected_items"][1]["error_msg"] == "Send open file error"
    assert failed(body) == []
    body = await office.ask(RESULT, agents_list=["001", "002", "006", "999", "000"])
    assert failed(body) == [(1701, ["999"]), (1703, ["000"]), (1707, ["006"]), (1813, ["002"])]
    assert failed(await office.ask(RESULT, agents_list=["001"], node_name="beta")) == [(1731, ["001"])]


async def test_nodes_and_their_tasks(office: Office) -> None:
    await office.ask(UPGRADE, agents_list=["001", "007", "1000"])
    office.world.clock.advance(100)
    assert await internal(office, "cancel", seconds=100.5) == 0  # they are younger than the restart
    [job] = await internal(office, "take", limit=1)
    assert job == {"task_id": 2, "agent_id": 7, "work": {}}
    assert await internal(office, "cancel", seconds=10.0) == 1
    office.world.clock.advance(100)
    await internal(office, "renew", tasks=[2])
    body = await office.ask(STATUS)
    assert [(one["task_id"], one["status"], one.get("last_update_time")) for one in body["data"]["affected_items"]] == [
        (1, "Pending", None), (2, "In progress", "2026-01-01T00:03:20Z"), (3, "Cancelled", "2026-01-01T00:01:40Z"),
    ]  # fmt: skip


async def test_thousands_in_one_request(office: Office) -> None:
    with office.node.agents.write() as connection:
        put(connection, [linux(number) for number in range(1, 5001)])
    body = await office.ask(UPGRADE, agents_list=["all"])
    assert body["data"]["total_affected_items"] == 5000
    assert items(body)[-1] == ("5000", 5000)
    assert (await office.ask(RESULT))["data"]["total_affected_items"] == 5000


@pytest.fixture
def reported(office: Office) -> Office:
    """With tasks of three agents in different states."""
    with office.node.tasks.write() as connection:
        lifecycle.create(connection, [(7, "beta"), (1000, "beta")], "upgrade", Work(), now=NOW - 9000)
        lifecycle.take(connection, "beta", 1, now=NOW - 8000)
        lifecycle.finish(connection, "beta", 1, "Send open file error", now=NOW - 7000)
        lifecycle.create(connection, [(1, "alpha")], "upgrade_custom", Work(file="x.wpk"), now=NOW)
    return office


class TestStatus:
    async def test_whole_items(self, reported: Office) -> None:
        body = await reported.ask(STATUS)
        assert body["data"]["affected_items"][0] == {
            "task_id": 1, "agent_id": "007", "node": "beta", "module": "upgrade_module", "command": "upgrade",
            "create_time": "2025-12-31T21:30:00Z", "last_update_time": "2025-12-31T22:03:20Z", "status": "Failed",
            "error_message": "Send open file error",
        }  # fmt: skip
        assert [one["task_id"] for one in body["data"]["affected_items"]] == [1, 2, 3]
        assert (body["error"], body["data"]["total_affected_items"]) == (0, 3)

    @pytest.mark.parametrize(
        ("params", "expected"),
        [
            ({"agents_list": ["007", "001", "555"]}, [1, 3]),
            ({"tasks_list": ["2", "9"]}, [2]),
            ({"status": "pending"}, [2, 3]),
            ({"command": "upgrade_custom"}, [3]),
            ({"node": "beta", "module": "upgrade_module"}, [1, 2]),
            ({"module": "api"}, []),
            ({"q": "agent_id=007,agent_id=1"}, [1, 3]),
            ({"q": "create_time<1h;status=Pending"}, [3]),
            ({"q": "last_update_time>2025-12-31T22:00:00Z"}, [1]),
            ({"search": "open file"}, [1]),
            ({"sort": "-agent_id"}, [2, 1, 3]),
            ({"offset": 1, "limit": 1}, [2]),
        ],
        ids=str,
    )
    async def test_filters(self, reported: Office, params: dict[str, Any], expected: list[int]) -> None:
        body = await reported.ask(STATUS, at="beta", **params)
        assert [one["task_id"] for one in body["data"]["affected_items"]] == expected
        assert body["data"]["failed_items"] == []

    async def test_select(self, reported: Office) -> None:
        body = await reported.ask(STATUS, select=["status"], limit=1)
        assert body["data"]["affected_items"] == [{"task_id": 1, "status": "Failed"}]

    @pytest.mark.parametrize(("params", "code"), [({"q": "work=x"}, 1408), ({"sort": "work"}, 1403)])
    async def test_refused(self, reported: Office, params: dict[str, str], code: int) -> None:
        with pytest.raises(SecmonError) as caught:
            await reported.ask(STATUS, **params)
        assert caught.value.code == code
