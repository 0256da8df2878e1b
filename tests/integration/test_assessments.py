"""Agents assess their hosts and look for rootkits: every node shows what they found, and changes become alerts."""

from dataclasses import replace
from typing import Any

from secmon.simulator.host.assessment import POLICY
from tests.engine.analysis_kit import read_alerts
from tests.integration.kit import RealCluster, RealNode
from tests.integration.test_agents import TIMING, agents_of, fleet_of
from tests.simulator.background import Background, running
from tests.waiting import wait_until

NAME = "assessed"
SUMMARIES = {str(rule) for rule in range(19001, 19006)}
CHANGES = {str(rule) for rule in range(19010, 19016)}


def items(three: RealCluster, node: RealNode, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = three.call(node, path)["data"]["affected_items"]
    return found


def is_known(three: RealCluster, fleet: Background, node: RealNode) -> bool:
    """Whether ``node`` shows the results of all agents as they are now."""
    for agent in fleet.fleet.agents:
        host = agent.host.assessment
        assert host is not None
        truth = fleet.call(lambda host=host: dict(host.results))  # type: ignore[misc]
        checks = items(three, node, f"/sca/{agent.id}/checks/{POLICY}?select=id,result")
        if {one["id"]: one["result"] for one in checks} != truth:
            return False
        passed = [policy["pass"] for policy in items(three, node, f"/sca/{agent.id}")]
        if passed != [list(truth.values()).count("passed")]:
            return False
    return True


def test_results_are_on_every_node_and_in_alerts(three: RealCluster) -> None:
    timing = replace(TIMING, first_scan=0.2, scan=2.0)
    with running(fleet_of([three.workers[0]], 2, NAME, timing=timing, scans=("sca", "rootcheck"))) as fleet:
        fleet.until(lambda c: c.connected == 2)
        wait_until(lambda: {one["status"] for one in agents_of(three, NAME).values()} == {"active"})
        for node in three.nodes:
            wait_until(lambda node=node: is_known(three, fleet, node), what=f"results on {node.name}")  # type: ignore[misc]
        for agent in fleet.fleet.agents:
            wait_until(lambda agent=agent: items(three, three.master, f"/rootcheck/{agent.id}"), what="findings")  # type: ignore[misc]
        wait_until(lambda: rules(three.workers[0]) & CHANGES, what="a result that has changed")
        assert {"19007", "19008"} <= rules(three.workers[0])
        assert rules(three.workers[0]) & SUMMARIES


def rules(node: RealNode) -> set[str]:
    """The rules that have become alerts of these agents."""
    return {one["rule"]["id"] for one in read_alerts(node.paths) if one["agent"]["name"].startswith(NAME)}
