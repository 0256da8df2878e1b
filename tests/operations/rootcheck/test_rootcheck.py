"""Findings of rootcheck (agent-data.md 6.4)."""

from typing import Any

import pytest

from secmon.inventory.schema import rootcheck_findings
from tests.offenders import Offenders
from tests.operations.inventory.hosts import members, report
from tests.operations.office import Office

pytestmark = pytest.mark.anyio

READ, LAST_SCAN, CLEAR = (
    "GET /rootcheck/{agent_id}",
    "GET /rootcheck/{agent_id}/last_scan",
    "DELETE /rootcheck/{agent_id}",
)
END = 1714640000
"""2024-05-02T08:53:20Z"""
DAY = 86400


def finding(number: int, log: str, last: int, **values: Any) -> dict[str, Any]:
    return {"agent_id": number, "log": log, "date_first": last - DAY, "date_last": last, **values}


FINDINGS = [
    finding(2, "Starting rootcheck scan.", END - 60),
    finding(2, "Starting syscheck scan.", END),
    finding(2, "new", END - 30, pci_dss="2.2.4"),
    finding(2, "still there", END - DAY + 1, cis="1.1"),
    finding(2, "gone", END - DAY),
    finding(3, "before the first end", END),
]


@pytest.fixture
def office(hosts: Office) -> Office:
    report(hosts.world, rootcheck_findings, *FINDINGS)
    return hosts


async def test_the_status_counts_from_the_end_of_the_last_scan(office: Office) -> None:
    assert members(await office.ask(READ, agent_id="002"), "log") == [], "no scan has ended"
    report(office.world, rootcheck_findings, finding(2, "Ending rootcheck scan.", END))
    body = await office.ask(READ, agent_id="002")
    assert members(body, "log", "status") == [
        ("new", "outstanding"),
        ("still there", "outstanding"),
        ("gone", "solved"),
    ]
    assert body["data"]["affected_items"][0] == {
        "status": "outstanding",
        "log": "new",
        "date_first": "2024-05-01T08:52:50Z",
        "date_last": "2024-05-02T08:52:50Z",
        "pci_dss": "2.2.4",
    }
    assert members(await office.ask(READ, agent_id="003"), "log") == []


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"status": "solved"}, ["gone"]),
    ({"status": "outstanding", "cis": "1.1"}, ["still there"]),
    ({"q": "status=solved"}, ["gone"]),
    ({"q": "date_last>2024-05-02"}, ["new"]),
    ({"pci_dss": "2.2.4", "select": ["log"]}, ["new"]),
    ({"search": "SOLVED"}, ["gone"]),
]


async def test_filters(office: Office) -> None:
    report(office.world, rootcheck_findings, finding(2, "Ending rootcheck scan.", END))
    with Offenders() as offenders:
        for asked, found in FILTERS:
            with offenders.row(asked):
                assert [log for (log,) in members(await office.ask(READ, agent_id="002", **asked), "log")] == found


async def test_errors(office: Office) -> None:
    wrong = await office.refused(READ, agent_id="002", status="open")
    assert (wrong.code, wrong.kind.status) == (1603, 400)
    unknown = await office.refused(READ, agent_id="999")
    assert (unknown.code, unknown.kind.status) == (1701, 404)
    assert (await office.refused(READ, agent_id="005")).code == 2007
    assert (await office.refused(LAST_SCAN, agent_id="999")).code == 1701
    assert await office.failed(CLEAR, agent_id="999") == [(1701, ["999"])]


async def test_last_scan_and_deletion(office: Office) -> None:
    assert members(await office.ask(LAST_SCAN, agent_id="002"), "start", "end") == [("2024-05-02T08:52:20Z", None)]
    report(office.world, rootcheck_findings, finding(2, "Ending rootcheck scan.", END))
    whole = [("2024-05-02T08:52:20Z", "2024-05-02T08:53:20Z")]
    assert members(await office.ask(LAST_SCAN, agent_id="002"), "start", "end") == whole
    body = await office.ask("DELETE /experimental/rootcheck", agents_list=["002", "005"])
    assert body["data"]["affected_items"] == ["002", "005"]
    assert members(await office.ask(READ, agent_id="002"), "log") == []
    assert members(await office.ask(LAST_SCAN, agent_id="002"), "start", "end") == [(None, None)]
