"""Agents report on their hosts while nodes and daemons die and messages are lost: in the end every node has the truth.

Agents go from node to node, and take up the synchronization there; each node has the rows of the agents that report to
it (agent-data.md 2).
"""

import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from secmon.simulator.misbehaviour import behaviour_of
from secmon.simulator.options import Misbehaviour
from tests.integration.kit import RealCluster, RealNode
from tests.integration.test_agents import TIMING, agents_of, fleet_of
from tests.simulator.background import Background, running
from tests.waiting import wait_until

AGENTS, ROWS = 6, 12
TABLES = {
    "syscollector_packages": ("syscollector/{}/packages?select=name,version", ("name", "version")),
    "syscollector_processes": ("syscollector/{}/processes?select=pid,name", ("pid", "name")),
    "fim_file": ("syscheck/{}?type=file&select=file,sha1", ("file", "sha1")),
}
"""A request for the rows of a component, and the members that are compared."""
_WIRE = {"file": "index", "sha1": "hash_sha1"}
FAULTS = (Misbehaviour.LOSSY, Misbehaviour.SHUFFLE, Misbehaviour.RESTORED)


def held(three: RealCluster, node: RealNode, agent: str, component: str) -> set[tuple[str, ...]]:
    """The rows that ``node`` shows of an agent."""
    path, members = TABLES[component]
    items = three.call(node, "/" + path.format(agent))["data"]["affected_items"]
    return {tuple(str(item[name]) for name in members) for item in items}


def true_rows(fleet: Background) -> Mapping[tuple[str, str], set[tuple[str, ...]]]:
    """The rows of the hosts by agent and component, as they are now."""

    def read() -> dict[tuple[str, str], set[tuple[str, ...]]]:
        return {
            (agent.id, component): {
                tuple(str(_member(key, row.state, name)) for name in TABLES[component][1])
                for key, row in agent.host.tables[component].rows.items()
            }
            for agent in fleet.fleet.agents
            for component in TABLES
        }

    return fleet.call(read)


def _member(key: str, state: Mapping[str, Any], name: str) -> object:
    wire = _WIRE.get(name, name)
    return key if wire == "index" else state["attributes"][wire]


@contextmanager
def faults(fleet: Background) -> Iterator[None]:
    """Half of the agents lose, repeat or reorder messages, or return to a backup."""

    def set_all(kinds: tuple[Misbehaviour | None, ...]) -> None:
        for number, agent in enumerate(fleet.fleet.agents):
            agent.behaviour = behaviour_of(kinds[number % len(kinds)])

    fleet.call(lambda: set_all((None, *FAULTS)))
    try:
        yield
    finally:
        fleet.call(lambda: set_all((None,)))


def shake(three: RealCluster, fleet: Background) -> None:
    """A worker dies and comes back, the daemons that store and analyse are killed, all while hosts change."""
    reports = fleet.counters.host_reports
    victim = three.workers[0]
    victim.kill()
    try:
        fleet.until(lambda c: c.losses > 0 and c.connected == AGENTS)
        for node in (three.master, three.workers[1]):
            node.signal("secmon-db", signal.SIGKILL)
        fleet.until(lambda c: c.host_reports > reports + 40 * AGENTS, what="reports during the faults")
        three.master.signal("secmon-analysisd", signal.SIGKILL)
    finally:
        victim.start()
        three.wait_whole()
    three.workers[1].signal("secmon-remoted", signal.SIGKILL)
    fleet.until(lambda c: c.connected == AGENTS)


def test_every_node_has_the_truth_in_the_end(three: RealCluster) -> None:
    timing = replace(TIMING, first_scan=0.2, scan=1.0)
    options = {"timing": timing, "scans": ("fim", "inventory", "sca"), "host_rows": ROWS, "host_changes": 2}
    with running(fleet_of(three.nodes, AGENTS, "moving", reports_per_second=200, **options)) as fleet:
        fleet.until(lambda c: c.connected == AGENTS)
        wait_until(lambda: {one["status"] for one in agents_of(three, "moving").values()} == {"active"})
        with faults(fleet):
            shake(three, fleet)
        fleet.call(lambda: fleet.fleet.set_host_changes(0))
        truth = true_rows(fleet)
        for (agent, component), rows in truth.items():
            assert rows, "a host without rows would prove nothing"
            for node in three.nodes:
                wait_until(
                    lambda node=node, agent=agent, component=component, rows=rows: (  # type: ignore[misc]
                        held(three, node, agent, component) == rows
                    ),
                    what=f"{component} of {agent} at {node.name}",
                )
        assert true_rows(fleet) == truth


def test_an_alert_of_a_changed_file_comes_once(three: RealCluster) -> None:
    """The daemon that stores and the one that analyses are killed while files change: no alert is lost or doubled."""
    timing = replace(TIMING, first_scan=0.2, scan=0.5)
    options = {"timing": timing, "scans": ("fim",), "host_rows": ROWS, "host_changes": 3}
    node = three.master
    with running(fleet_of([node], 2, "alerts", reports_per_second=200, **options)) as fleet:
        fleet.until(lambda c: c.connected == 2)
        for daemon in ("secmon-db", "secmon-analysisd", "secmon-db"):
            reports = fleet.counters.host_reports
            fleet.until(lambda c, reports=reports: c.host_reports > reports + 30)  # type: ignore[misc]
            node.signal(daemon, signal.SIGKILL)
            wait_until(lambda daemon=daemon: node.pid(daemon) is not None)  # type: ignore[misc]
        fleet.call(lambda: fleet.fleet.set_host_changes(0))
        counts = fleet.counters.host_reports
        fleet.until(lambda c: c.host_reports > counts + 12, what="scans without changes")
        truth = {agent.id: list(agent.host.files.changes) for agent in fleet.fleet.agents if agent.host.files}
        wait_until(lambda: {agent: alerts_of(node, agent) for agent in truth} == truth)


def alerts_of(node: RealNode, agent: str) -> list[tuple[str, str]]:
    """Path and event of the alerts of an agent's files, in order."""
    lines = (node.paths.logs / "alerts/alerts.json").read_text().splitlines()
    alerts = [json.loads(line) for line in lines if '"syscheck"' in line]
    return [(one["syscheck"]["path"], one["syscheck"]["event"]) for one in alerts if one["agent"]["id"] == agent]
