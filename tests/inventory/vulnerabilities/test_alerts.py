"""From a vulnerability to the alert of the default rules."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from secmon.config.default_ruleset import default_ruleset_folder
from secmon.engine.engine import Engine
from secmon.engine.input.decoded_events import read_decoded_event
from secmon.engine.memory.state import State
from secmon.engine.output.document import Documents, Origin, encode
from secmon.engine.ruleset.sources import collect_folder, compile_sources
from secmon.inventory.vulnerabilities.events import Reporter, finding_event, first_scan_event
from secmon.inventory.vulnerabilities.matching import Flaw
from secmon.knowledge.vulnerabilities.records import Rating
from tests.engine.rules_kit import START

OF = Reporter(4, "web-4", "any")
ROW: dict[str, Any] = {
    "cve": "CVE-2099-0001", "name": "demo", "version": "1", "architecture": "amd64", "severity": "High",
    "title": "CVE-2099-0001 affects demo", "type": "PACKAGE", "published": "2099-01-10", "updated": "2099-01-12",
    "condition": "Package less than 2", "cvss2_score": 0.0, "cvss3_score": 7.8,
    "external_references": '["https://example.org/1"]',
}  # fmt: skip


FLAW = Flaw(
    "CVE-2099-0001", ROW["condition"], Rating(), (), "[]", "2099-01-10", "2099-01-12", "DSA-1", "A flaw of demo"
)  # fmt: skip


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    rules = compile_sources(collect_folder(default_ruleset_folder()))
    return Engine(rules, State.private(Path(tmp_path_factory.mktemp("state"))), host=b"mgr")


def alert(engine: Engine, data: bytes) -> Any:
    event = read_decoded_event(data, engine.ruleset, START)
    assert event is not None
    return json.loads(encode(Documents(Origin("mgr")).of(engine.evaluate(event), "1.0")))


def test_rules_by_severity_and_status(engine: Engine) -> None:
    found = {
        (severity, flaw is None): alert(engine, finding_event(OF, {**ROW, "severity": severity}, flaw))["rule"]["id"]
        for severity in ("Low", "Medium", "Untriaged", "High", "Critical")
        for flaw in (FLAW, None)
    }
    assert found == {
        ("Low", False): "23503", ("Medium", False): "23504", ("Untriaged", False): "23504", ("High", False): "23505",
        ("Critical", False): "23506", **dict.fromkeys(((each, True) for each, _ in found), "23502"),
    }  # fmt: skip


def test_fields_of_an_alert(engine: Engine) -> None:
    made = alert(engine, finding_event(OF, ROW, FLAW))
    assert (made["agent"], made["location"], made["decoder"]) == (
        {"id": "004", "name": "web-4"}, "vulnerability-detector", {"name": "json"},
    )  # fmt: skip
    assert made["rule"]["description"] == "CVE-2099-0001 affects demo (severity High)."
    assert made["data"]["vulnerability"] == {
        "cve": "CVE-2099-0001", "title": "CVE-2099-0001 affects demo", "rationale": "A flaw of demo",
        "advisories_ids": ["DSA-1"], "severity": "High", "status": "Active",
        "type": "PACKAGE", "published": "2099-01-10", "updated": "2099-01-12",
        "package": {"name": "demo", "version": "1", "architecture": "amd64", "condition": "Package less than 2"},
        "cvss": {"cvss3": {"base_score": "7.8"}}, "references": ["https://example.org/1"],
    }  # fmt: skip


def test_a_first_scan(engine: Engine) -> None:
    for severities, rule in ((Counter(Low=3), "240097"), (Counter(Low=3, Critical=1), "240098")):
        assert alert(engine, first_scan_event(OF, severities))["rule"]["id"] == rule
