"""Messages of configuration assessment: what is stored, requested and reported (agent-data.md 5.3 to 5.5)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from secmon.inventory.assessment import handler
from secmon.inventory.assessment.handler import handle_assessment
from secmon.inventory.assessment.stored_policies import hash_of
from secmon.inventory.decoded_event import DecodedEvent
from secmon.inventory.message import MalformedMessage
from secmon.inventory.schema import sca_check_compliance, sca_check_rules, sca_checks, sca_policies, sca_scans
from tests.inventory.assessment.assessed_agent import Body, Results, check, dump, sent, summary
from tests.inventory.handled_messages import HandledMessages, message_of

TABLES = (sca_policies, sca_scans, sca_checks, sca_check_compliance, sca_check_rules)
RESULTS: Results = {9001: "passed", 9002: "failed", 9003: None, 9004: "passed"}
AT_ONCE, LATER = (4, "sca-dump:demo:1"), (4, "sca-dump:demo:0")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[HandledMessages]:
    made = HandledMessages(tmp_path, handle_assessment)
    yield made
    made.store.close()


@pytest.fixture
def scanned(node: HandledMessages) -> HandledMessages:
    """The agent's first contact is over."""
    node.handle(*sent(summary(RESULTS, first_scan=1), *dump(RESULTS, "1")))
    return node


def results(node: HandledMessages) -> dict[int, str]:
    return {row["id"]: row["result"] for row in node.rows(sca_checks)}


def kinds(events: list[DecodedEvent]) -> list[str]:
    return [dict(event.fields)["sca.type"] for event in events]


@pytest.mark.parametrize(
    ("in_order", "expected"),
    [
        (
            ["passed", "failed", "not applicable", "passed"],
            "52c366b6850b45834ab9ea233b577bda47adf3ad554b53772eeb38eaba59645c",
        ),
        (["not applicable", "passed"], "12d7c0bb7a4d1427846c2c98eda4f127557ea83da4043535a647fda6192ff5e3"),
        (["passed"], "284d1e8c4918248233df17642bbb940c001e1fa856c18aab86ba6dbe7813eb13"),
        (["not applicable"] * 2, "e7ac0786668e0ff0f02b62bd04f45ff636fd82db63b1104601c975dc005f3a67"),
    ],
)
def test_results_hash(in_order: list[str], expected: str) -> None:
    assert hash_of(in_order) == expected


def test_first_contact(node: HandledMessages) -> None:
    first = node.handle(*sent(summary(RESULTS, first_scan=1)))
    assert (first.answers, first.events) == ([AT_ONCE], [])
    *checks, last = sent(*dump(RESULTS, "1"))
    dumped = node.handle(*checks)
    assert (dumped.answers, kinds(dumped.events)) == ([], ["check"] * 4)
    assert all("sca.check.previous_result" not in dict(event.fields) for event in dumped.events)
    end = node.handle(last)
    assert (end.answers, kinds(end.events)) == ([], ["summary"])
    assert results(node) == {9001: "passed", 9002: "failed", 9003: "not applicable", 9004: "passed"}
    assert node.rows(sca_scans) == [
        {
            "policy_id": "demo",
            "hash": hash_of(["passed", "failed", "not applicable", "passed"]),
            "scan_id": 1,
            "start_scan": 1714640000,
            "end_scan": 1714640004,
            "pass": 2,
            "fail": 1,
            "invalid": 1,
            "total_checks": 4,
            "score": 66,
        }
    ]


def test_an_unchanged_summary_is_stored_and_nothing_else(scanned: HandledMessages) -> None:
    again = scanned.handle(*sent(summary(RESULTS, scan=2)))
    assert (again.answers, again.events) == ([], [])
    assert scanned.rows(sca_scans)[0]["scan_id"] == 2


def test_a_changed_check_is_updated_and_reported_with_its_result_before(scanned: HandledMessages) -> None:
    changed = scanned.handle(
        *sent(check(9002, "passed", scan=2, title="Another title"), check(9001, None, scan=2), check(9004, "passed"))
    )
    assert [
        (dict(one.fields)["sca.check.previous_result"], dict(one.fields)["sca.check.result"]) for one in changed.events
    ] == [
        ("failed", "passed"),
        ("passed", "not applicable"),
    ]
    rows = {row["id"]: row for row in scanned.rows(sca_checks)}
    assert (rows[9002]["result"], rows[9002]["scan_id"], rows[9002]["title"]) == ("passed", 2, "Check 9002")
    assert (rows[9001]["result"], rows[9001]["reason"]) == ("not applicable", "no file")


def test_a_summary_that_does_not_fit_the_checks_requests_them(scanned: HandledMessages) -> None:
    other = RESULTS | {9002: "passed"}
    found = scanned.handle(*sent(summary(other, scan=2), summary(other, scan=3)))
    assert (found.answers, kinds(found.events)) == ([LATER], ["summary"])
    assert scanned.handle(*sent(summary(other, scan=3, first_scan=1))).answers == [AT_ONCE]
    both = scanned.handle(*sent(summary(RESULTS | {1: None}), summary(other, first_scan=1), summary(other)))
    assert both.answers == [AT_ONCE]


def test_a_changed_policy_file_deletes_the_policy_until_the_dump(scanned: HandledMessages) -> None:
    found = scanned.handle(*sent(summary({7: "failed"}, scan=2, hash_file="cd" * 32)))
    assert found.answers == [AT_ONCE]
    assert [scanned.rows(table) for table in TABLES] == [[]] * 5
    again = scanned.handle(*sent(*dump({7: "failed"}, "1", scan=2, hash_file="cd" * 32)))
    assert (again.answers, kinds(again.events)) == ([], ["check", "summary"])
    assert scanned.rows(sca_policies)[0]["hash_file"] == "cd" * 32
    assert results(scanned) == {7: "failed"}


def test_the_end_of_a_dump_deletes_what_is_left_of_earlier_scans(scanned: HandledMessages) -> None:
    left = check(9009, "failed", scan=1, rules=["f:/a"], compliance={"tsc": "CC6.1"})
    scanned.handle(*sent(left))
    assert scanned.handle(*sent(*dump(RESULTS, "0", scan=2))).answers == []
    assert 9009 not in results(scanned)
    assert [scanned.rows(sca_check_rules), scanned.rows(sca_check_compliance)] == [[], []]
    assert scanned.handle(*sent(*dump({9001: "passed"}, "0", scan=3))).answers == [LATER]
    unknown = {"type": "dump_end", "policy_id": "unknown", "elements_sent": 0, "scan_id": 4}
    assert scanned.handle(*sent(unknown)).answers == []
    assert results(scanned) == {9001: "passed"}


def test_policies_that_the_agent_no_longer_has_are_deleted(scanned: HandledMessages) -> None:
    scanned.handle(*sent(summary({1: None}, policy="with, comma|bar"), check(1, None, policy="with, comma|bar")))
    scanned.handle(*sent(check(5, "passed", policy="without a summary", rules=["d:/x"])))
    scanned.handle(*sent({"type": "policies", "policies": ["with, comma|bar", 7, None]}))
    assert [row["id"] for row in scanned.rows(sca_policies)] == ["with, comma|bar"]
    assert [row["policy_id"] for row in scanned.rows(sca_scans)] == ["with, comma|bar"]
    assert results(scanned) == {1: "not applicable"}
    assert scanned.rows(sca_check_rules) == []
    scanned.handle(*sent({"type": "policies", "policies": []}))
    assert [scanned.rows(table) for table in TABLES] == [[]] * 5


def test_the_same_check_id_in_two_policies(node: HandledMessages) -> None:
    for policy, result in (("a", "passed"), ("b", "failed")):
        node.handle(*sent(summary({1: result}, policy=policy), *dump({1: result}, "1", policy=policy)))
    assert [(row["policy_id"], row["result"]) for row in node.rows(sca_checks)] == [("a", "passed"), ("b", "failed")]


def test_a_check_is_stored_with_its_rules_and_requirements(node: HandledMessages) -> None:
    rules = ["f:/etc/x -> r:^a", "not d:/etc/y", "n:x compare <= 1", "not  p:z", "r:HKLM", "c:ls", "x:other", 7]
    compliance = {"cis": "1.1.1", "pci_dss": "2.2.4,2.2.5", "number": 8.2, "none": None, "flag": True}
    (event,) = node.handle(
        *sent(check(1, "failed", file="/a,/b", command="ls -l", rules=rules, compliance=compliance, references="u,v"))
    ).events
    assert {(row["type"], row["rule"]) for row in node.rows(sca_check_rules)} == {
        ("file", "f:/etc/x -> r:^a"),
        ("directory", "not d:/etc/y"),
        ("numeric", "n:x compare <= 1"),
        ("process", "not  p:z"),
        ("registry", "r:HKLM"),
        ("command", "c:ls"),
    }
    assert [(row["key"], row["value"]) for row in node.rows(sca_check_compliance)] == [
        ("cis", "1.1.1"),
        ("number", "8.2"),
        ("pci_dss", "2.2.4,2.2.5"),
    ]
    assert (event.decoder, event.location) == ("sca", "(web-4) any->sca")
    assert event.fields == [
        ("sca.type", "check"),
        ("sca.scan_id", "1"),
        ("sca.policy", "Demo hardening"),
        ("sca.check.id", "1"),
        ("sca.check.title", "Check 1"),
        ("sca.check.compliance.cis", "1.1.1"),
        ("sca.check.compliance.pci_dss", "2.2.4,2.2.5"),
        ("sca.check.compliance.number", "8.2"),
        ("sca.check.references", "u,v"),
        ("sca.check.file", '["/a","/b"]'),
        ("sca.check.command", '["ls -l"]'),
        ("sca.check.result", "failed"),
    ]


def test_rules_that_are_no_array_do_not_cost_the_check(node: HandledMessages) -> None:
    node.handle(*sent(check(0, "passed", scan=0, rules="f:/etc/x", compliance="cis")))
    assert results(node) == {0: "passed"}


def test_fields_of_a_summary(node: HandledMessages) -> None:
    (event,) = node.handle(*sent(summary(RESULTS))).events
    assert dict(event.fields) == {
        "sca.type": "summary",
        "sca.scan_id": "1",
        "sca.policy": "Demo hardening",
        "sca.description": "Demo policy",
        "sca.policy_id": "demo",
        "sca.passed": "2",
        "sca.failed": "1",
        "sca.invalid": "1",
        "sca.total_checks": "4",
        "sca.score": "66",
        "sca.file": "demo.yml",
    }


def _without(body: Body, name: str) -> Body:
    return {key: value for key, value in body.items() if key != name}


@pytest.mark.parametrize(
    "body",
    [
        "not JSON",
        "[]",
        '{"type":"check","type2":"\\ud800"}',
        {"type": "other"},
        {"type": 7},
        {"type": "policies"},
        {"type": "policies", "policies": "demo"},
        _without(summary(RESULTS), "hash"),
        summary(RESULTS, hash=7),
        summary(RESULTS, score=101),
        summary(RESULTS, passed=1 << 63),
        summary(RESULTS, scan=-1),
        summary(RESULTS, policy=""),
        summary(RESULTS, policy="a\0b"),
        summary(RESULTS, policy="ä" * 2041),
        check(1, "passed", title=None),
        check(1, "passed", description=7),
        check(1, "passed", id=True),
        _without(check(1, "passed"), "policy"),
        {"type": "dump_end", "policy_id": "demo", "scan_id": 1},
    ],
)
def test_malformed_messages_change_nothing(scanned: HandledMessages, body: Any) -> None:
    before = [scanned.rows(table) for table in TABLES]
    with pytest.raises(MalformedMessage):
        scanned.handle(message_of("sca", body))
    assert [scanned.rows(table) for table in TABLES] == before


def test_policies_and_checks_of_an_agent_are_bounded(node: HandledMessages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "MAX_POLICIES", 2)
    monkeypatch.setattr(handler, "MAX_CHECKS", 3)
    node.handle(*sent(summary({1: None}, policy="a"), summary({1: None}, policy="b"), summary({2: None}, policy="b")))
    with pytest.raises(MalformedMessage, match="2 policies"):
        node.handle(*sent(summary({1: None}, policy="c")))
    node.handle(*sent(*(check(number, "passed") for number in (1, 2, 3))))
    with pytest.raises(MalformedMessage, match="3 checks"):
        node.handle(*sent(check(4, "passed")))
    node.handle(*sent(check(3, "failed")), *sent(check(4, "passed"), agent=5))
    assert results(node) == {1: "passed", 2: "passed", 3: "failed"}
