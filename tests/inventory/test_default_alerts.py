"""From the message of an agent to the alert of the default rules: assessment, rootcheck, benchmark."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from secmon.config.default_ruleset import default_ruleset_folder
from secmon.engine.engine import Engine
from secmon.engine.input.decoded_events import read_decoded_event
from secmon.engine.memory.state import State
from secmon.engine.output.document import Documents, Origin, encode
from secmon.engine.ruleset.sources import collect_folder, compile_sources
from secmon.inventory.changes import Changes
from secmon.inventory.decoded_event import encode_event
from secmon.inventory.handlers import HANDLERS
from secmon.inventory.message import AgentMessage
from tests.engine.rules_kit import START
from tests.inventory.assessment.assessed_agent import Results, check, summary
from tests.inventory.handled_messages import HandledMessages, message_of


class Node:
    """The handlers, and the default rules."""

    def __init__(self, folder: Path) -> None:
        self.inventory = HandledMessages(folder, lambda message, changes: HANDLERS[message.queue](message, changes))
        rules = compile_sources(collect_folder(default_ruleset_folder()))
        self._engine = Engine(rules, State.private(folder), host=b"mgr")
        self._documents = Documents(Origin("mgr"))

    def alert(self, message: AgentMessage) -> Any:
        """The object of the last event of a message."""
        changes: Changes = self.inventory.handle(message)
        event = read_decoded_event(encode_event(changes.events[-1]), self._engine.ruleset, START)
        assert event is not None
        return json.loads(encode(self._documents.of(self._engine.evaluate(event), "1.0")))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    made = Node(tmp_path_factory.mktemp("node"))
    yield made
    made.inventory.store.close()


def test_results_of_a_check(node: Node) -> None:
    members: dict[str, Any] = {"file": "/etc/a,/etc/b", "compliance": {"cis": "1.1.1", "pci_dss": "2.2.4,8.2"}}
    found = []
    for result in ("passed", "failed", None, "passed", None, "failed", "passed"):
        alert = node.alert(message_of("sca", check(1, result, **members)))
        found.append((alert["rule"]["id"], alert["data"]["sca"]["check"].get("previous_result")))
    assert found == [
        ("19008", None),
        ("19011", "passed"),
        ("19013", "failed"),
        ("19015", "not applicable"),
        ("19012", "passed"),
        ("19014", "not applicable"),
        ("19010", "failed"),
    ]
    assert (alert["decoder"], alert["location"], alert["agent"]["id"]) == ({"name": "sca"}, "sca", "004")
    assert alert["data"]["sca"]["check"]["file"] == ["/etc/a", "/etc/b"]
    assert alert["data"]["sca"]["check"]["compliance"] == {"cis": "1.1.1", "pci_dss": "2.2.4,8.2"}
    assert (alert["rule"]["cis"], "Check 1" in alert["rule"]["description"]) == (["1.1.1"], True)


@pytest.mark.parametrize(
    ("passed", "failed", "rule"), [(9, 1, "19001"), (8, 2, "19002"), (5, 5, "19003"), (4, 6, "19004"), (0, 9, "19005")]
)
def test_scores_of_a_policy(node: Node, passed: int, failed: int, rule: str) -> None:
    results: Results = dict(enumerate(["passed"] * passed + ["failed"] * failed))
    alert = node.alert(message_of("sca", summary(results, policy=f"p{rule}")))
    assert alert["rule"]["id"] == rule
    assert alert["data"]["sca"]["score"] == str(100 * passed // (passed + failed))


def test_findings_of_rootcheck(node: Node) -> None:
    text = "System Audit: Demo: root login allowed {CIS: 5.2}. File: /etc/ssh/sshd_config."
    alert = node.alert(message_of("rootcheck", text))
    assert "rootcheck" in alert["rule"]["groups"]
    assert (alert["decoder"]["name"], alert["data"]) == (
        "rootcheck",
        {"title": "Demo: root login allowed", "file": "/etc/ssh/sshd_config"},
    )
    assert (alert["rule"]["cis"], alert["full_log"]) == (["5.2"], text)


def test_results_of_a_benchmark(node: Node) -> None:
    body = {"type": "scan_info", "scan_id": 7, "cis": {"benchmark": "Demo", "profile": "1", "score": "57%", "pass": 1}}
    alert = node.alert(message_of("wodle_cis-cat", body))
    assert (alert["rule"]["id"], alert["data"]["cis"]["score"], alert["data"]["type"]) == ("87403", "57%", "scan_info")
    body = {"type": "scan_result", "scan_id": 7, "cis": {"rule_title": "Demo", "result": "fail"}}
    assert node.alert(message_of("wodle_cis-cat", body))["rule"]["id"] == "87411"
