"""Files and assessments of a simulated host (agent-data.md 3.3, 5.2)."""

from datetime import UTC, datetime
from hashlib import sha256
from random import Random

from secmon.simulator.host.assessment import POLICY, Assessment
from secmon.simulator.host.files import WatchedFiles
from secmon.simulator.profiles import PROFILES

NOW = datetime(2024, 5, 2, 8, 53, 20, tzinfo=UTC)


def test_events_of_files_lead_to_the_rows_of_the_table() -> None:
    files = WatchedFiles(PROFILES["debian-12"], Random(3), lambda: NOW, 5)
    copy = {path: row.state["attributes"] for path, row in files.files.rows.items()}
    kinds = set()
    for _ in range(200):
        data = files.change()["data"]
        kinds.add(data["type"])
        if data["type"] == "modified":
            assert data["old_attributes"] == copy[data["path"]]
        if data["type"] == "deleted":
            assert copy.pop(data["path"]) == data["attributes"]
        else:
            copy[data["path"]] = data["attributes"]
    assert kinds == {"added", "modified", "deleted"}
    assert copy == {path: row.state["attributes"] for path, row in files.files.rows.items()}


def test_windows_has_a_registry() -> None:
    files = WatchedFiles(PROFILES["windows-11"], Random(3), lambda: NOW, 5)
    assert [(table.component, len(table.rows)) for table in files.tables] == [
        ("fim_file", 5), ("fim_registry_key", 1), ("fim_registry_value", 3),
    ]  # fmt: skip


def test_a_dump_has_the_results_of_the_summary() -> None:
    assessment = Assessment(Random(4), lambda: NOW)
    summary, policies = assessment.scan()
    assert summary["first_scan"] == 1
    assert policies == {"type": "policies", "policies": [POLICY]}
    *checks, end, again = assessment.dump(first=True)
    assert end["elements_sent"] == len(checks) == summary["total_checks"]
    assert again["force_alert"] == "1"
    results = ":".join(check["check"].get("result", "") for check in checks)
    assert sha256(results.encode()).hexdigest() == summary["hash"] == again["hash"]
    assert "first_scan" not in list(assessment.scan())[-2]
