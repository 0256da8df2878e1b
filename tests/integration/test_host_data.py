"""What an agent reports of its host is read at any node, also when it has gone (agent-data.md 2.6, 5, 6)."""

from dataclasses import replace
from io import BytesIO
from typing import Any

from secmon.knowledge.vulnerabilities.feed_files import records_in_file
from secmon.knowledge.vulnerabilities.importing import import_feed
from tests.integration.kit import RealCluster, RealNode
from tests.integration.test_agents import TIMING, agents_of, fleet_of
from tests.knowledge.vulnerabilities.records import affected, encoded, record
from tests.simulator.background import running
from tests.waiting import wait_until

NAME = "host-00001"
SCANS = replace(TIMING, first_scan=0.2, scan=1.0)


def test_every_node_shows_what_a_host_has_reported(three: RealCluster) -> None:
    options = {"timing": SCANS, "scans": ("inventory", "sca", "rootcheck"), "host_changes": 0}

    def status() -> str | None:
        return agents_of(three, "host").get(NAME, {}).get("status")

    with running(fleet_of([three.workers[0]], 1, "host", **options)) as fleet:
        fleet.until(lambda c: c.connected == 1)
        wait_until(lambda: status() == "active", what="the agent at the master")
        agent = agents_of(three, "host")[NAME]["id"]

        def read(node: RealNode, path: str) -> dict[str, Any]:
            data: dict[str, Any] = three.call(node, f"/{path.format(agent)}")["data"]
            return data

        wait_until(
            lambda: read(three.master, "syscollector/{}/packages")["synchronization"]["complete"],
            what="a complete inventory",
        )
        wait_until(lambda: read(three.workers[1], "rootcheck/{}?status=outstanding")["affected_items"])
        wait_until(lambda: read(three.workers[1], "sca/{}")["affected_items"])
        [policy] = read(three.workers[0], "sca/{}?select=policy_id,total_checks")["affected_items"]
        wait_until(
            lambda: (
                read(three.master, f"sca/{{}}/checks/{policy['policy_id']}")["total_affected_items"]
                == policy["total_checks"]
            ),
            what="all checks",
        )
    wait_until(lambda: status() == "disconnected")
    kept = read(three.master, "syscollector/{}/packages")
    assert kept["total_affected_items"] > 0
    assert kept["synchronization"]["node"] == three.workers[0].name


def test_advisories_of_the_master_are_compared_with_a_host_of_a_worker(three: RealCluster) -> None:
    """agent-data.md 9: replicated, found, served by every node, and alerted once for the first scan."""
    found = record("CVE-2099-0006", affected("PyPI", "requests", {"fixed": "99"}))
    import_feed(three.master.paths, records_in_file(BytesIO(encoded(found))))
    worker, options = three.workers[0], {"timing": SCANS, "scans": ("inventory",), "host_changes": 0}
    name = "flawed-00001"
    alerts = worker.paths.logs / "alerts/alerts.json"

    def items(node: RealNode, path: str) -> list[Any]:
        rows: list[Any] = three.call(node, path)["data"]["affected_items"]
        return rows

    with running(fleet_of([worker], 1, "flawed", **options)) as fleet:
        fleet.until(lambda c: c.connected == 1)
        wait_until(lambda: agents_of(three, "flawed").get(name, {}).get("status") == "active")
        path = f"/vulnerability/{agents_of(three, 'flawed')[name]['id']}"
        wait_until(lambda: items(three.master, path), what="the vulnerability")
        for node in three.nodes:
            assert [(one["cve"], one["name"], one["status"]) for one in items(node, path)] == [
                ("CVE-2099-0006", "requests", "VALID")
            ]
        wait_until(lambda: alerts.exists() and '"240098"' in alerts.read_text(), what="the alert")
        assert three.call(three.master, "/vulnerability", method="PUT")["data"]["total_affected_items"] == 3
