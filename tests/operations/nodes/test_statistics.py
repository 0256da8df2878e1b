"""Statistics of a node (manager.md 9 and 10)."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import structs

from secmon.cluster.catalogue import CATALOGUE
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome
from tests.operations.analyst import analysing, stocked
from tests.operations.office import Office
from tests.operations.world import FixedControl, World

pytestmark = pytest.mark.anyio

STATS, HOURLY, WEEKLY = "GET /manager/stats", "GET /manager/stats/hourly", "GET /manager/stats/weekly"
ENGINE, LINK, DAEMONS = "GET /manager/stats/analysisd", "GET /manager/stats/remoted", "GET /manager/daemons/stats"
DAY = "9-5715-3-4\n9-550-7-2\n9--6--61--2--0\n\n10--0--5--0--1\n\nHour totals - 0:0\nTotal events for day:66\n"
METRICS = {
    "bytes": {"received": 11, "sent": 12},
    "keys_reload_count": 1,
    "messages": {
        "received_breakdown": {"control": 3, "event": 4, "discarded": 5, "dequeued_after": 6, "ping": 0, "unknown": 0},
        "sent_breakdown": {"ack": 1},
    },
    "queues": {"received": {"size": 131072, "usage": 7}},
    "tcp_sessions": 2,
}


@dataclass
class CountingLink:
    """Agents' connections of which only the counters are known."""

    metrics: Mapping[str, Any]

    async def statistics(self, agents: Sequence[int] | None = None) -> Mapping[str, Any]:
        return {"name": "secmon-remoted", "uptime": 1_700_000_000, "timestamp": 1_700_000_060, "metrics": self.metrics}

    async def request(self, agent: int, target: str, payload: bytes, *, timeout: float | None = None) -> bytes:
        raise SecmonError(1014)

    async def send(self, messages: Sequence[tuple[int, str]]) -> Sequence[int]:
        return [agent for agent, _ in messages]


@pytest.fixture
def office(alone: World) -> Office:
    return stocked(alone)


def put(office: Office, name: str, text: str) -> None:
    file = office.node.paths.root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


async def test_a_day(office: Office) -> None:
    put(office, "stats/totals/2024/May/ossec-totals-02.log", DAY)
    body = await office.ask(STATS, date="2024-05-02")
    assert body["data"]["affected_items"] == [
        {
            "hour": 9,
            "alerts": [{"sigid": 5715, "level": 3, "times": 4}, {"sigid": 550, "level": 7, "times": 2}],
            "totalAlerts": 6, "events": 61, "syscheck": 2, "firewall": 0,
        },
        {"hour": 10, "alerts": [], "totalAlerts": 0, "events": 5, "syscheck": 0, "firewall": 1},
    ]  # fmt: skip


async def test_days_without_or_with_damaged_files(office: Office) -> None:
    assert (await office.refused(STATS, date="2024-05-03")).code == 1308
    assert (await office.refused(STATS, date="2024-02-31")).code == 1308
    assert (await office.refused(STATS)).code == 1308
    today = office.node.clock.now().astimezone()
    put(office, f"stats/totals/{today:%Y/%b}/ossec-totals-{today:%d}.log", "9--6--61\n")
    refused = await office.refused(STATS)
    assert (refused.code, refused.kind.status) == (1309, 500)
    assert "line 1" in refused.message


async def test_averages(office: Office) -> None:
    assert await office.one(HOURLY) == {"averages": [0] * 24, "interactions": 0}
    put(office, "stats/hourly-average/3", "120\n")
    put(office, "stats/hourly-average/24", "5")
    put(office, "stats/hourly-average/4", "many")
    assert await office.one(HOURLY) == {"averages": [0, 0, 0, 120] + [0] * 20, "interactions": 5}
    put(office, "stats/weekly-average/1/23", "7")
    items = (await office.ask(WEEKLY))["data"]["affected_items"]
    assert [next(iter(item)) for item in items] == ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    assert items[1] == {"Mon": {"hours": [0] * 23 + [7], "interactions": 0}}


async def test_older_forms(office: Office) -> None:
    assert (await office.refused(ENGINE)).code == 1308
    put(office, "var/run/secmon-analysisd.state", "# State\nevents_received='12'\nalerts_queue_usage='0.25'\n")
    assert await office.one(ENGINE) == {"events_received": 12.0, "alerts_queue_usage": 0.25}
    put(office, "var/run/secmon-analysisd.state", "events_received='x'\n")
    assert (await office.refused(ENGINE)).code == 1309
    assert (await office.refused(LINK)).code == 1308
    office.node.services.agent_link = CountingLink(METRICS)
    assert await office.one(LINK) == {
        "queue_size": 7.0, "total_queue_size": 131072.0, "tcp_sessions": 2.0, "evt_count": 4.0, "ctrl_msg_count": 3.0,
        "discarded_count": 5.0, "sent_bytes": 12.0, "recv_bytes": 11.0, "dequeued_after_close": 6.0,
    }  # fmt: skip
    for name in (ENGINE, LINK):
        operation = CATALOGUE.get(name)
        assert operation is not None
        assert operation.deprecated == "4.4"


async def test_daemons(office: Office) -> None:
    office.node.services.agent_link = CountingLink(METRICS)
    control = office.node.services.control
    assert isinstance(control, FixedControl)
    control.counted["secmon-db"] = {"inventory.started": 1_700_000_000}
    async with analysing(office.node):
        items = (await office.ask(DAEMONS))["data"]["affected_items"]
        assert [item["name"] for item in items] == ["secmon-remoted", "secmon-analysisd", "secmon-db"]
        assert items[0] == {
            "uptime": "2023-11-14T22:13:20+00:00", "timestamp": "2023-11-14T22:14:20+00:00", "name": "secmon-remoted",
            "metrics": METRICS,
        }  # fmt: skip
        assert {"bytes", "events", "queues"} <= set(items[1]["metrics"])
        one = await office.one(DAEMONS, daemons_list=["wazuh-analysisd", "secmon-analysisd"])
        assert one["name"] == "secmon-analysisd"
    control.counted.clear()
    silent = (await office.ask(DAEMONS))["data"]
    assert [item["name"] for item in silent["affected_items"]] == ["secmon-remoted"]
    failed = [(one["error"]["code"], one["id"]) for one in silent["failed_items"]]
    assert sorted(failed) == [(1121, ["secmon-analysisd"]), (1121, ["secmon-db"])]
    body = await office.ask(DAEMONS, daemons_list=["secmon-db", "secmon-remoted"])
    assert (body["error"], body["data"]["total_affected_items"]) == (2, 1)


async def test_the_store_of_what_agents_report(office: Office) -> None:
    control = office.node.services.control
    assert isinstance(control, FixedControl)
    control.counted["secmon-db"] = {
        "inventory.started": 1_700_000_000, "inventory.messages": 9, "inventory.handled.fim_file": 4,
        "inventory.handled_us.fim_file": 2999, "inventory.handled.syscollector_users": 3, "inventory.handled.dbsync": 1,
        "inventory.handled.osinfo": 1, "inventory.transactions": 2, "inventory.transaction_us": 12_000,
        "inventory.agents_removed": 1,
    }  # fmt: skip
    item = await office.one(DAEMONS, daemons_list=["wazuh-db"])
    assert (item["name"], item["uptime"]) == ("secmon-db", "2023-11-14T22:13:20+00:00")
    queries, time = item["metrics"]["queries"], item["metrics"]["time"]
    agents = queries["received_breakdown"]["agent_breakdown"]
    assert (queries["received"], queries["received_breakdown"]["agent"]) == (9, 9)
    assert agents["db"] == {"begin": 2, "commit": 2, "remove": 1}
    tables = agents["tables"]
    assert tables["syscheck"] == {
        "fim_file": 4, "fim_registry": 0, "fim_registry_key": 0, "fim_registry_value": 0, "syscheck": 0,
    }  # fmt: skip
    assert (tables["syscollector"]["syscollector_users"], tables["sync"]["dbsync"]) == (3, 1)
    assert tables["syscollector"]["deprecated"]["osinfo"] == 1
    assert time["execution"] == 12
    assert time["execution_breakdown"]["agent_breakdown"]["db"] == {"commit": 10}
    assert time["execution_breakdown"]["agent_breakdown"]["tables"]["syscheck"]["fim_file"] == 2


class HangingLink(CountingLink):
    """One that takes questions and never answers."""

    async def statistics(self, agents: Sequence[int] | None = None) -> Mapping[str, Any]:
        await asyncio.Event().wait()
        return {}


async def test_a_daemon_that_hangs_is_named(office: Office) -> None:
    office.node.services.agent_link = HangingLink(METRICS)
    async with analysing(office.node):
        running = next(iter(office.world.nodes.values()))
        call = office.world.call(DAEMONS, "admin", {}, on=running)
        call = structs.replace(call, deadline=office.world.clock.monotonic() + 2.0)
        outcome = await running.router.route(call)
    assert isinstance(outcome, Outcome)
    assert [item["name"] for item in outcome.items] == ["secmon-analysisd"]
    failures = {one.ids: one.code for one in outcome.failures}
    assert failures == {("secmon-remoted",): 1014, ("secmon-db",): 1121}


async def test_permissions(office: Office) -> None:
    for name in (STATS, HOURLY, WEEKLY, ENGINE, LINK, DAEMONS):
        assert (await office.refused(name, "nobody")).code == 4000


async def test_a_node_of_the_cluster(cluster: World) -> None:
    office = stocked(cluster)
    folder = cluster.nodes["beta"].node.paths.root / "stats/hourly-average"
    folder.mkdir(exist_ok=True)
    (folder / "0").write_text("9")
    item = await office.one("GET /cluster/{node_id}/stats/hourly", node_id="beta")
    assert item["averages"][0] == 9
    refused = await office.refused("GET /cluster/{node_id}/stats", node_id="beta", date="2024-05-02")
    assert refused.code == 1308
    assert await office.failed("GET /cluster/{node_id}/stats/weekly", node_id="none") == [(1730, ["none"])]
    refused = await office.refused("GET /cluster/{node_id}/daemons/stats", "manager_only", node_id="beta")
    assert refused.code == 4000
