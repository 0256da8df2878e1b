"""Results of benchmark scans (agent-data.md 7.4)."""

import pytest

from secmon.inventory.schema import benchmark_results
from tests.operations.inventory.hosts import members, report
from tests.operations.office import Office

pytestmark = pytest.mark.anyio

READ, READ_ALL = "GET /ciscat/{agent_id}/results", "GET /experimental/ciscat/results"
FIGURES = {"pass": 10, "fail": 3, "error": 0, "notchecked": 1, "unknown": 0, "score": 76}


async def test_results_of_an_agent_and_of_all(hosts: Office) -> None:
    result = {"agent_id": 2, "scan_id": 7, "scan_time": "2024/05/02 10:00:00", "benchmark": "Demo", "profile": "Server"}
    report(hosts.world, benchmark_results, {**result, **FIGURES}, {**result, **FIGURES, "agent_id": 1, "score": 50})
    body = await hosts.ask(READ, agent_id="002", score=76)
    assert body["data"]["affected_items"] == [
        {
            "scan": {"id": 7, "time": "2024-05-02T10:00:00+00:00"}, "benchmark": "Demo", "profile": "Server", **FIGURES,
            "agent_id": "002",
        }
    ]  # fmt: skip
    assert "synchronization" not in body["data"]
    every = await hosts.ask(READ_ALL, sort="-score", profile="server")
    assert members(every, "agent_id", "score") == [("002", 76), ("001", 50)]
    assert await hosts.failed(READ, agent_id="999") == [(1701, ["999"])]
    assert (await hosts.refused(READ, agent_id="005")).code == 2007
