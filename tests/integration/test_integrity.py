"""A changed file of an agent becomes one alert, whichever daemons are killed on its way."""

import asyncio
import json
import signal
from collections import Counter
from typing import Any

from secmon.common.errors import SecmonError
from secmon.common.ipc.commands import command
from secmon.daemons.control_sockets import daemon_socket
from tests.engine.analysis_kit import read_alerts
from tests.integration.kit import RealCluster, RealNode
from tests.integration.test_agents import fleet_of
from tests.inventory.integrity.reports import MODIFIED
from tests.simulator.background import Background, running
from tests.waiting import wait_until

DATABASE, ANALYSIS = "secmon-db", "secmon-analysisd"
AGENT = "integrity"


def send(fleet: Background, *paths: str) -> None:
    """Report that these files were modified."""
    agent = fleet.fleet.agents[0]
    for path in paths:
        body = json.dumps({"type": "event", "data": MODIFIED | {"path": path}}).encode()
        assert fleet.call(lambda body=body: agent.report(b"8:syscheck:" + body))  # type: ignore[misc]


def alerts(node: RealNode) -> list[dict[str, Any]]:
    return [each for each in read_alerts(node.paths) if each["agent"]["name"].startswith(AGENT)]


def alerted(node: RealNode) -> Counter[str]:
    """The files that alerts name, with the number of their alerts."""
    return Counter(each["syscheck"]["path"] for each in alerts(node) if "syscheck" in each)


def kill(node: RealNode, daemon: str) -> None:
    """SIGKILL ``daemon``, and wait until its successor runs."""
    before = node.pid(daemon)
    node.signal(daemon, signal.SIGKILL)
    wait_until(lambda: node.pid(daemon) not in (None, before) and runs(node, daemon), what=f"{daemon} back")


def runs(node: RealNode, daemon: str) -> bool:
    try:
        return asyncio.run(command(daemon_socket(node.paths, daemon), "status"))["status"] == "running"  # type: ignore[no-any-return]
    except SecmonError:
        return False


def test_a_change_becomes_one_alert_though_daemons_are_killed(three: RealCluster) -> None:
    node = three.workers[0]
    with running(fleet_of([node], 1, AGENT, restarts=False)) as fleet:
        fleet.until(lambda c: c.connected == 1)
        send(fleet, "/srv/first")
        wait_until(lambda: "/srv/first" in alerted(node), what="an alert")
        (alert,) = (each for each in alerts(node) if "syscheck" in each)
        assert (alert["rule"]["id"], alert["decoder"]["name"]) == ("550", "syscheck_integrity_changed")
        assert (alert["location"], alert["agent"]["name"]) == ("syscheck", f"{AGENT}-00001")
        assert (alert["syscheck"]["size_before"], alert["syscheck"]["size_after"]) == ("4", "9")
        assert alert["full_log"].startswith("File '/srv/first' modified\n")

        paths = [f"/srv/{number}" for number in range(30)]
        node.signal(ANALYSIS, signal.SIGSTOP)  # so that it has written none of their alerts when it is killed
        for start in range(0, len(paths), 10):
            send(fleet, *paths[start : start + 10])
            kill(node, DATABASE)
        kill(node, ANALYSIS)
        kill(node, DATABASE)
        send(fleet, "/srv/last")
        wait_until(lambda: "/srv/last" in alerted(node), what="the last alert")
        assert alerted(node) == Counter(["/srv/first", *paths, "/srv/last"])
