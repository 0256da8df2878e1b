"""Rulesets on a real cluster: any node accepts files, all have them, each analyses and returns its counters."""

import json
import math
import time
from typing import Any

from secmon.common.file_io import write_file
from tests.integration.kit import RealCluster, RealNode
from tests.waiting import wait_until

RULE = b"""<group name="own,"><rule id="100900" level="7"><match>grocery</match>
<description>Groceries</description></rule></group>"""
OCTETS = {"Content-Type": "application/octet-stream"}


def rules(three: RealCluster, node: RealNode) -> list[str]:
    body = three.call(node, "/rules?rule_ids=100900")
    return [item["description"] for item in body["data"]["affected_items"]]


def store(three: RealCluster, node: RealNode, content: bytes) -> dict[str, Any]:
    path = "/rules/files/own.xml?overwrite=true"
    return three.call(node, path, method="PUT", content=content, headers=OCTETS)


def wait_for_alert(three: RealCluster, node: RealNode, text: str) -> None:
    """Gives the event ``text`` to the node's API, again each 4 s (30 a minute are taken), until that node alerts."""
    file = node.paths.logs / "alerts/alerts.json"
    given = -math.inf

    def alerted() -> bool:
        nonlocal given
        if time.monotonic() - given > 4:
            three.call(node, "/events", method="POST", json={"events": [text]})
            given = time.monotonic()
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return any((one["full_log"], one["rule"]["id"]) == (text, "100900") for one in lines)

    wait_until(alerted)


def test_a_rule_from_its_upload_to_its_alerts(three: RealCluster) -> None:
    worker = three.workers[0]
    body = store(three, worker, RULE)
    assert (body["error"], body["message"]) == (0, "The file was stored")
    for node in three.nodes:
        wait_until(lambda node=node: rules(three, node) == ["Groceries"])  # type: ignore[misc]
    line = {"event": "grocery 1", "log_format": "syslog", "location": "x"}
    session = three.call(worker, "/logtest", method="PUT", json=line)["data"]
    assert session["output"]["rule"]["id"] == "100900"
    closed = three.call(three.master, f"/logtest/sessions/{session['token']}", method="DELETE")
    assert closed["data"]["codemsg"] == 0
    for node in three.nodes:
        wait_for_alert(three, node, f"grocery of {node.name}")
    assert "grocery of master-node" not in (worker.paths.logs / "alerts/alerts.json").read_text()


def test_what_each_node_counts(three: RealCluster) -> None:
    worker = three.workers[0]
    for node in three.nodes:
        items = three.call(three.master, f"/cluster/{node.name}/daemons/stats")["data"]["affected_items"]
        assert [item["name"] for item in items] == ["secmon-remoted", "secmon-analysisd", "secmon-db"]
    item = three.call(worker, f"/cluster/{three.master.name}/stats/weekly")["data"]["affected_items"]
    assert [next(iter(day)) for day in item] == ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    for component in ("analysis/alerts", "analysis/rules", "com/cluster", "auth/auth", "request/remote"):
        body = three.call(worker, f"/cluster/{three.master.name}/configuration/{component}")
        assert body["error"] == 0, body
    wait_until(lambda: (worker.paths.run / "secmon-analysisd.state").exists())
    [state] = three.call(worker, "/manager/stats/analysisd")["data"]["affected_items"]
    assert isinstance(state["events_received"], float)  # manager.md 9.3
    assert three.call(worker, "/manager/stats/remoted")["data"]["affected_items"][0]["tcp_sessions"] == 0


def test_a_ruleset_that_cannot_be_used_is_refused_and_changes_nothing(three: RealCluster) -> None:
    worker = three.workers[0]
    broken = RULE.replace(b"<match>", b"<regex>(</regex><match>")
    [failed] = store(three, worker, broken)["data"]["failed_items"]
    assert (failed["error"]["code"], failed["id"]) == (1908, ["etc/rules/own.xml"])
    assert three.call(worker, "/cluster/configuration/validation")["error"] == 0
    # By hand, as it is, and at once: an empty file is a ruleset that can be used, without the rule.
    write_file(three.master.paths.etc / "rules/own.xml", broken)

    def invalid() -> bool:
        failed = three.call(worker, "/cluster/configuration/validation")["data"]["failed_items"]
        return {name for one in failed for name in one["id"] if one["error"]["code"] == 1908} == {
            node.name for node in three.nodes
        }

    wait_until(invalid)
    for node in three.nodes:
        wait_for_alert(three, node, f"grocery again of {node.name}")
    assert store(three, three.master, RULE)["message"] == "The file was stored"
    wait_until(lambda: three.call(worker, "/cluster/configuration/validation")["error"] == 0)
