"""Configuration assessments (agent-data.md 5.7)."""

from typing import Any

import pytest

from secmon.inventory import schema
from tests.offenders import Offenders
from tests.operations.inventory.hosts import counted_statements, members, report
from tests.operations.office import Office

pytestmark = pytest.mark.anyio

POLICIES, CHECKS = "GET /sca/{agent_id}", "GET /sca/{agent_id}/checks/{policy_id}"
DEMO = {"agent_id": 2, "policy_id": "demo_linux"}


@pytest.fixture
def office(hosts: Office) -> Office:
    world = hosts.world
    policy = {
        "agent_id": 2,
        "name": "Demo hardening",
        "description": "Demo policy",
        "references": "https://example.org/demo",
    }
    report(
        world, schema.sca_policies, {**policy, "id": "demo_linux", "hash_file": "0" * 64}, {**policy, "id": "unscanned"}
    )
    figures = {"pass": 2, "fail": 1, "invalid": 1, "total_checks": 4, "score": 66}
    report(world, schema.sca_scans, {**DEMO, **figures, "start_scan": 1714640000, "end_scan": 1714640004})
    report(
        world,
        schema.sca_checks,
        {**DEMO, "id": 9001, "title": "Demo mode is set", "result": "failed", "condition": "all"},
        {**DEMO, "id": 9002, "title": "Swap is off", "result": "passed", "condition": "any"},
        {**DEMO, "id": 9003, "title": "Other", "result": "passed", "condition": "all"},
        {**DEMO, "policy_id": "other", "id": 9001, "title": "Of another policy"},
    )
    report(
        world,
        schema.sca_check_compliance,
        {**DEMO, "check_id": 9001, "key": "cis", "value": "1.1.1"},
        {**DEMO, "check_id": 9001, "key": "pci_dss", "value": "2.2.4,2.2.5"},
        {**DEMO, "check_id": 9002, "key": "cis", "value": "0.9"},
    )
    report(
        world,
        schema.sca_check_rules,
        {**DEMO, "check_id": 9001, "type": "file", "rule": "f:/etc/demo.conf -> r:^mode"},
        {**DEMO, "check_id": 9001, "type": "command", "rule": "c:demo -> r:on"},
    )
    return hosts


async def test_policies_with_a_scan(office: Office) -> None:
    body = await office.ask(POLICIES, agent_id="002")
    assert body["data"] == {
        "affected_items": [
            {
                "policy_id": "demo_linux", "name": "Demo hardening", "description": "Demo policy",
                "references": "https://example.org/demo", "pass": 2, "fail": 1, "invalid": 1, "total_checks": 4,
                "score": 66, "start_scan": "2024-05-02T08:53:20+00:00", "end_scan": "2024-05-02T08:53:24+00:00",
                "hash_file": "0" * 64,
            }
        ],
        "total_affected_items": 1, "total_failed_items": 0, "failed_items": [],
    }  # fmt: skip
    assert members(await office.ask(POLICIES, agent_id="002", name="demo HARDENING"), "policy_id") == [("demo_linux",)]
    assert members(await office.ask(POLICIES, agent_id="001"), "policy_id") == []
    assert await office.failed(POLICIES, agent_id="999") == [(1701, ["999"])]


async def test_a_check_has_the_documented_shape(office: Office) -> None:
    body = await office.ask(CHECKS, agent_id="002", policy_id="demo_linux", limit=2)
    assert body["data"]["total_affected_items"] == 3
    assert body["data"]["affected_items"] == [
        {
            "policy_id": "demo_linux", "id": 9001, "title": "Demo mode is set", "result": "failed", "condition": "all",
            "compliance": [{"key": "cis", "value": "1.1.1"}, {"key": "pci_dss", "value": "2.2.4,2.2.5"}],
            "rules": [
                {"type": "command", "rule": "c:demo -> r:on"}, {"type": "file", "rule": "f:/etc/demo.conf -> r:^mode"},
            ],
        },
        {
            "policy_id": "demo_linux", "id": 9002, "title": "Swap is off", "result": "passed", "condition": "any",
            "compliance": [{"key": "cis", "value": "0.9"}], "rules": [],
        },
    ]  # fmt: skip
    [last] = (await office.ask(CHECKS, agent_id="002", policy_id="demo_linux", offset=2))["data"]["affected_items"]
    assert last.keys() == {"policy_id", "id", "title", "result", "condition"}


QUERIES: list[tuple[dict[str, Any], list[int]]] = [
    ({"q": "compliance.key=pci_dss"}, [9001]),
    ({"q": "compliance.key=cis;compliance.value=2.2.4"}, []),
    ({"q": "rules.type=file;compliance.key=cis"}, [9001]),
    ({"q": "result=passed", "sort": "-id"}, [9003, 9002]),
    ({"search": "c:DEMO"}, [9001]),
    ({"condition": "all"}, [9001, 9003]),
    ({"result": "all"}, [9001, 9002, 9003]),
    ({"sort": "compliance.value"}, [9003, 9002, 9001]),
    ({"title": "' OR 1=1"}, []),
]


async def test_queries_count_checks(office: Office) -> None:
    with Offenders() as offenders:
        for asked, found in QUERIES:
            with offenders.row(asked):
                body = await office.ask(CHECKS, agent_id="002", policy_id="demo_linux", **asked)
                assert [number for (number,) in members(body, "id")] == found
                assert body["data"]["total_affected_items"] == len(found)


async def test_selected_members(office: Office) -> None:
    body = await office.ask(CHECKS, agent_id="002", policy_id="demo_linux", select=["compliance.key"], limit=1)
    compliance = [{"key": "cis"}, {"key": "pci_dss"}]
    assert body["data"]["affected_items"] == [{"policy_id": "demo_linux", "id": 9001, "compliance": compliance}]
    distinct = await office.ask(
        CHECKS, agent_id="002", policy_id="demo_linux", select=["compliance.key"], distinct=True, sort="compliance.key"
    )
    assert distinct["data"]["affected_items"] == [{"compliance.key": "cis"}, {"compliance.key": "pci_dss"}]
    assert distinct["data"]["total_affected_items"] == 2


async def test_an_unknown_policy_has_no_checks(office: Office) -> None:
    assert members(await office.ask(CHECKS, agent_id="002", policy_id="demo"), "id") == []
    assert await office.failed(CHECKS, agent_id="999", policy_id="demo") == [(1701, ["999"])]
    assert (await office.refused(CHECKS, agent_id="005", policy_id="demo")).code == 2007


async def test_a_read_takes_four_statements_however_many_checks_there_are(office: Office) -> None:
    with counted_statements(office.world) as statements:
        await office.ask(CHECKS, agent_id="002", policy_id="demo_linux", limit=2)
    assert len([one for one in statements if one.startswith("SELECT")]) == 4
