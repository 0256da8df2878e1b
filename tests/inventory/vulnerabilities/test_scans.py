"""Scans of hosts: what is found, what is reported, and when."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from secmon.agents.registry.schema import agents
from secmon.inventory.schema import pending_events, vulnerabilities, vulnerability_marks, vulnerability_scans
from secmon.inventory.vulnerabilities.readiness import SETTLING_SECONDS
from tests.inventory.vulnerabilities.scanned_node import DEBIAN, ScannedNode, package
from tests.knowledge.vulnerabilities.records import affected, fixed, record

DEMO = fixed("DSA-1", "Debian:12", "demo", "2.4.1-4", aliases=["CVE-2099-0001"], references=[{"url": "https://a/b"}])
OTHER = fixed("DSA-2", "Debian:12", "other", "5", aliases=["CVE-2099-0002"], modified="2099-02-01T00:00:00Z")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ScannedNode]:
    made = ScannedNode(tmp_path)
    made.report("osinfo", DEBIAN)
    yield made
    made.close()


@pytest.fixture
def scanned(node: ScannedNode) -> ScannedNode:
    """A host that was scanned, with nothing vulnerable."""
    node.advise(DEMO)
    node.install(package("bash", "5.2"))
    node.work()
    node.reported()
    return node


def test_a_finding_has_the_documented_values(node: ScannedNode) -> None:
    node.advise(DEMO)
    node.install(package("demo-tool", "2.4.1-3", source="demo (2.4.1)", item_id="i1"))
    node.work()
    names = (
        "agent_id", "reference", "cve", "type", "status", "name", "version", "architecture", "severity",
        "external_references", "condition", "title", "published", "updated", "cvss2_score", "cvss3_score",
    )  # fmt: skip
    assert node.rows(*names) == [
        (4, "i1", "CVE-2099-0001", "PACKAGE", "VALID", "demo-tool", "2.4.1-3", "amd64", "Critical", '["https://a/b"]',
         "Package less than 2.4.1-4", "CVE-2099-0001 affects demo-tool", "2099-01-10", "2099-01-12", 0.0, 9.8)
    ]  # fmt: skip
    assert node.rows("detection_time") == [int(node.clock.now().timestamp())]


def test_the_first_scan_of_a_host_is_one_event(node: ScannedNode) -> None:
    low = fixed("DSA-3", "Debian:12", "bash", "9", severity=[{"type": "Debian", "score": "low"}])
    node.advise(DEMO, low)
    node.install(package("demo", "1"), package("bash", "5"))
    node.work()
    counts = {"critical": 1, "high": 0, "medium": 0, "low": 1, "untriaged": 0}
    assert node.reported() == [{"vulnerability_scan": {"type": "first", "found": 2, **counts}}]


def test_a_vulnerability_appears_and_is_solved(scanned: ScannedNode) -> None:
    scanned.install(package("demo", "1"))
    scanned.work()
    assert scanned.alerts() == [("Active", "CVE-2099-0001", "demo")]
    scanned.install(package("demo", "2.4.1-4"))
    scanned.remove(package("demo", "1"))
    scanned.work()
    assert scanned.alerts() == [("Solved", "CVE-2099-0001", "demo")]
    assert scanned.rows("status") == ["OBSOLETE"]
    scanned.install(package("demo", "1"))
    scanned.work()
    assert (scanned.alerts(), scanned.rows("status")) == ([("Active", "CVE-2099-0001", "demo")], ["VALID"])


def test_an_upgrade_that_does_not_help_tells_nothing(scanned: ScannedNode) -> None:
    scanned.install(package("demo", "1"))
    scanned.work()
    before = scanned.rows("detection_time")
    scanned.reported()
    scanned.remove(package("demo", "1"))
    scanned.install(package("demo", "2"))
    scanned.work()
    assert scanned.alerts() == []
    assert scanned.rows("version", "status") == [("2", "VALID")]
    assert scanned.rows("detection_time") == before


def test_a_change_of_one_package_reads_that_one_alone(scanned: ScannedNode) -> None:
    scanned.install(*(package(f"p{number}", "1") for number in range(50)))
    scanned.work()
    with scanned.store.write() as connection:  # a row that a scan of everything would correct
        row = {"agent_id": 4, "reference": "gone", "cve": "C", "status": "VALID", "type": "PACKAGE", "name": "x"}
        connection.execute(vulnerabilities.insert(), [row])
    scanned.report("packages", package("demo", "1"), operation="MODIFIED")
    scanned.work()
    assert scanned.rows("cve", "status") == [("C", "VALID"), ("CVE-2099-0001", "VALID")]


def test_advisories_that_change_are_compared_with_all_hosts(scanned: ScannedNode) -> None:
    scanned.report("osinfo", DEBIAN, number=5)
    scanned.install(package("other", "1"))
    scanned.install(package("other", "1"), number=5)
    scanned.work()
    scanned.reported()
    scanned.advise(OTHER)
    scanned.work()
    assert scanned.alerts() == [("Active", "CVE-2099-0002", "other")] * 2
    scanned.advise({**OTHER, "modified": "2099-03-01T00:00:00Z", "withdrawn": "2099-03-01T00:00:00Z"})
    scanned.work()
    assert scanned.alerts() == [("Solved", "CVE-2099-0002", "other")] * 2
    scanned.work()
    assert scanned.alerts() == []


def test_advisories_of_an_ecosystem_that_is_new_are_a_first_scan(scanned: ScannedNode) -> None:
    scanned.install(package("Left_Pad", "1.0", format="pypi", architecture=""))
    scanned.work()
    scanned.advise(record("PYSEC-1", affected("PyPI", "left-pad", {"fixed": "1.0.post1"})))
    scanned.work()
    [event] = scanned.reported()
    assert event["vulnerability_scan"]["found"] == 1
    assert scanned.rows("cve") == ["PYSEC-1"]


def test_without_its_advisories_a_finding_is_obsolete_and_not_called_solved(scanned: ScannedNode) -> None:
    scanned.install(package("demo", "1"))
    scanned.work()
    scanned.reported()
    for path in scanned.paths.advisories.iterdir():
        path.unlink()
    scanned.work()
    assert (scanned.rows("status"), scanned.alerts()) == (["OBSOLETE"], [])


def test_damaged_advisories_change_nothing(scanned: ScannedNode, caplog: pytest.LogCaptureFixture) -> None:
    scanned.install(package("demo", "1"))
    scanned.work()
    [path] = scanned.paths.advisories.iterdir()
    path.unlink()
    path.write_bytes(b"nonsense")
    scanned.restart()
    scanned.install(package("other", "1"))
    scanned.work()
    assert scanned.rows("status") == ["VALID"]
    assert "Agent 004 is not compared" in caplog.text
    assert scanned.counters.snapshot()["vulnerabilities.scans_failed"] == 1
    scanned.advise(DEMO, OTHER)
    scanned.work()
    assert scanned.rows("cve") == ["CVE-2099-0001", "CVE-2099-0002"]


def test_a_host_is_not_scanned_while_its_rows_are_incomplete(node: ScannedNode) -> None:
    node.advise(DEMO)
    node.install(package("demo", "1"))
    node.work(patience=SETTLING_SECONDS)
    assert node.rows("cve") == []
    node.work()
    assert node.rows("cve") == ["CVE-2099-0001"]


def test_agents_of_other_nodes_and_silent_ones_wait(node: ScannedNode) -> None:
    node.advise(DEMO)
    node.install(package("demo", "1"))
    for values in ({"node_name": "n2"}, {"node_name": "n1", "connection_status": "disconnected"}):
        with node.registry.write() as connection:
            connection.execute(update(agents).where(agents.c.id == 4).values(values))
        node.work()
        assert node.rows("cve") == []
    with node.registry.write() as connection:
        connection.execute(update(agents).values(connection_status="active"))
    node.work()
    assert node.rows("cve") == ["CVE-2099-0001"]


def test_a_requested_scan_compares_everything(scanned: ScannedNode) -> None:
    with scanned.store.write() as connection:
        connection.execute(vulnerabilities.insert(), [{"agent_id": 4, "reference": "r", "cve": "C", "status": "VALID"}])
        connection.execute(update(vulnerability_scans).values(requested=1))
    scanned.work()
    assert scanned.rows("status") == ["OBSOLETE"]
    with scanned.store.read() as connection:
        assert connection.execute(select(vulnerability_scans.c.requested)).scalar_one() == 0


def test_solved_ones_are_kept_for_a_time(scanned: ScannedNode) -> None:
    scanned.install(package("demo", "1"))
    scanned.work()
    scanned.remove(package("demo", "1"))
    scanned.work()
    scanned.clock.advance(29 * 86400)
    scanned.scan()
    assert scanned.rows("status") == ["OBSOLETE"]
    scanned.clock.advance(2 * 86400)
    scanned.scan()
    assert scanned.rows("status") == []


def test_obsolete_rows_of_a_host_are_bounded(scanned: ScannedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secmon.inventory.vulnerabilities.rows.MAX_OBSOLETE", 3)
    for number in range(6):
        scanned.install(package("demo", f"1.{number}", architecture=f"arch{number}"))
        scanned.work()
        scanned.remove(package("demo", f"1.{number}", architecture=f"arch{number}"))
        scanned.work()
    assert scanned.rows("version", "status") == [(f"1.{number}", "OBSOLETE") for number in (3, 4, 5)]


def test_a_kill_at_any_write_neither_loses_nor_doubles(scanned: ScannedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends before each commit in turn, also between the journal for the analysis and the store."""
    scanned.install(package("demo", "1"), package("other", "1"))
    scanned.advise(OTHER)
    scanned.store_messages()
    scanned.clock.advance(10_000)
    for place in ("scan._write_scan", "scanner.scan_host"):
        with monkeypatch.context() as patch:
            patch.setattr(f"secmon.inventory.vulnerabilities.{place}", _killed)
            with pytest.raises(OSError, match="killed"):
                scanned.scanner.step()
        scanned.restart()
    assert scanned.scanner.step()
    scanned.restart()
    with monkeypatch.context() as patch:
        patch.setattr("secmon.inventory.reader._write_position", _killed)
        with pytest.raises(OSError, match="killed"):
            scanned.reader.step()
    scanned.restart()
    assert not scanned.reader.settled
    scanned.install(package("third", "1"))
    scanned.work()
    assert sorted(scanned.alerts()) == [("Active", "CVE-2099-0001", "demo"), ("Active", "CVE-2099-0002", "other")]
    assert scanned.rows("status") == ["VALID", "VALID"]
    with scanned.store.read() as connection:
        for table in (pending_events, vulnerability_marks):
            assert connection.execute(select(func.count()).select_from(table)).scalar() == 0


def _killed(*_: Any) -> None:
    raise OSError("killed")


def test_rows_of_an_agent_that_names_many_versions_are_bounded(
    node: ScannedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secmon.inventory.vulnerabilities.matching.MAX_VERSIONS", 3)
    monkeypatch.setattr("secmon.inventory.vulnerabilities.matching.MAX_FINDINGS", 5)
    node.advise(DEMO, record("X", affected("Debian:12", "x")))
    node.install(*(package("demo", f"1.{number}") for number in range(9)), *(package("x", f"{n}") for n in range(9)))
    node.work()
    assert len(node.rows("cve")) == 5
