"""Commands and upgrades on a real cluster: asked at any node, carried out where the agents are."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from hashlib import sha1
from typing import Any

import pytest

from secmon.common.clock import SystemClock
from secmon.simulator import PROFILES, Fleet, Options
from tests.integration.kit import RealCluster, RealNode
from tests.integration.test_agents import TIMING
from tests.simulator.background import Background, running, server_of
from tests.waiting import wait_until

PACKAGE = b"WPK256\0" + bytes(range(256)) * 400
AGENTS = 6


@pytest.fixture(scope="module")
def fleet(three: RealCluster) -> Iterator[Background]:
    """Two agents at each node."""
    options = Options(timing=TIMING, versions=("v4.7.0",))
    made = Fleet(
        [server_of(node) for node in three.nodes], AGENTS, options=options, profiles=[PROFILES["ubuntu-22.04"]]
    )
    with running(made) as background:
        background.until(lambda c: c.connected == AGENTS)
        wait_until(lambda: len(by_node(three)) == 3 and sum(map(len, by_node(three).values())) == AGENTS)
        yield background


def by_node(three: RealCluster) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for item in three.call(three.master, "/agents?status=active&q=id!=000")["data"]["affected_items"]:
        found.setdefault(item["node_name"], []).append(item["id"])
    return found


def heard_since(three: RealCluster, moment: datetime) -> list[str]:
    """Active agents with a keepalive after ``moment``: until then the master may still hold their states of before."""
    items = three.call(three.master, "/agents?status=active&q=id!=000&sort=id")["data"]["affected_items"]
    return [item["id"] for item in items if datetime.fromisoformat(item["lastKeepAlive"]) > moment]


def failed(body: dict[str, Any]) -> dict[int, list[str]]:
    return {entry["error"]["code"]: entry["id"] for entry in body["data"]["failed_items"]}


def reported(fleet: Background, kind: str) -> Counter[str]:
    return Counter(each.agent for each in fleet.fleet.commands if each.kind == kind)


def test_commands_from_any_node_reach_all_agents(three: RealCluster, fleet: Background) -> None:
    ids = sorted(one for some in by_node(three).values() for one in some)
    for asked, node in enumerate(three.nodes, start=1):
        body = three.call(node, "/agents/reconnect", method="PUT")
        assert (sorted(body["data"]["affected_items"]), body["error"]) == (ids, 0)
        # They leave when they hear it, and only those that are back can be asked again.
        fleet.until(lambda _, asked=asked: reported(fleet, "reconnect") == Counter(ids * asked))  # type: ignore[misc]
        fleet.until(lambda c: c.connected == AGENTS)
        back = SystemClock().now()
        wait_until(lambda back=back: heard_since(three, back) == ids)  # type: ignore[misc]
    body = {"command": "!own", "arguments": ["-x"], "alert": {"data": {"srcip": "192.0.2.7"}}}
    answer = three.call(three.workers[0], "/active-response", method="PUT", json=body)
    assert sorted(answer["data"]["affected_items"]) == ids
    fleet.until(lambda _: reported(fleet, "active-response") == Counter(ids))
    unknown = three.call(three.workers[1], "/active-response", method="PUT", json={"command": "unheard-of0"})
    assert failed(unknown) == {1652: ids}


def test_an_agent_answers_through_its_node(three: RealCluster, fleet: Background) -> None:
    for some in by_node(three).values():
        for node in three.nodes:
            body = three.call(node, f"/agents/{some[0]}/config/agent/client")
            assert body["data"]["client"]["server"]
            body = three.call(node, f"/agents/{some[0]}/stats/agent")
            assert body["data"]["affected_items"][0]["status"] == "connected"
            body = three.call(node, f"/agents/{some[0]}/daemons/stats?daemons_list=secmon-remoted")
            [counted] = body["data"]["affected_items"][0]["agents"]
            assert counted["id"] == int(some[0])


def test_upgrades_at_every_node(three: RealCluster, fleet: Background) -> None:
    for node in three.nodes:
        folder = node.paths.packages / "linux/x86_64"
        folder.mkdir(parents=True)
        (folder / "versions").write_text(f"v4.8.2 {sha1(PACKAGE).hexdigest()}\n")
        (folder / "wazuh_agent_v4.8.2_linux_x86_64.wpk").write_bytes(PACKAGE)
    ids = sorted(one for some in by_node(three).values() for one in some)
    body = three.call(three.workers[0], f"/agents/upgrade?agents_list={','.join(ids)}", method="PUT")
    assert (sorted(item["agent"] for item in body["data"]["affected_items"]), failed(body)) == (ids, {})

    def results(node: RealNode) -> Counter[tuple[str, str]]:
        items = three.call(node, "/agents/upgrade_result")["data"]["affected_items"]
        return Counter((item["node"], item["status"]) for item in items)

    expected = Counter({(node.name, "Updated"): 2 for node in three.nodes})
    wait_until(lambda: results(three.workers[1]) == expected, what="all agents upgraded")
    fleet.until(lambda c: c.clears == AGENTS)
    assert {agent.dialect.version for agent in fleet.fleet.agents} == {"v4.8.2"}
    tasks = three.call(three.workers[1], "/tasks/status?status=done")["data"]["affected_items"]
    assert len(tasks) == AGENTS


def test_a_node_that_is_gone_costs_its_agents_only(three: RealCluster, fleet: Background) -> None:
    victim = three.workers[1]
    here = by_node(three)
    others = sorted(one for name, some in here.items() if name != victim.name for one in some)
    # Its agents stay where the registry last saw them: no other node knows of them before they connect.
    victim.signal("secmon-clusterd", 19)
    try:
        body = three.call(three.master, "/agents/restart", method="PUT")
        assert set(others) <= set(body["data"]["affected_items"])
        assert {one for some in failed(body).values() for one in some} == set(here[victim.name])
        assert list(body["dapi_errors"]) == [victim.name]
        assert body["error"] == 2
    finally:
        victim.signal("secmon-clusterd", 18)
    three.wait_whole()
