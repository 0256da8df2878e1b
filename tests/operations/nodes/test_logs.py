"""``/manager/logs`` and ``/cluster/{node_id}/logs`` (manager.md 12)."""

from typing import Any

import pytest

from secmon.cluster.parameters import ParameterError, read_text
from secmon.common.errors import SecmonError
from secmon.operations.all import CATALOGUE
from tests.operations.world import World

pytestmark = pytest.mark.anyio

LOGS = "GET /manager/logs"
TEXT = """\
2026/01/02 10:00:00 secmon-analysisd: INFO: started
2026/01/02 10:00:01 secmon-remoted: WARNING: slow
2026/01/02 10:00:01 secmon-analysisd: ERROR: broken rule
    in file a.xml
2026/01/02 10:00:02 secmon-analysisd: ERROR: broken list
2026/01/02 10:00:03 secmon-modulesd:syscollector: DEBUG: scan
"""


def write_log(world: World, name: str = "manager", text: str = TEXT) -> None:
    (world.nodes[name].node.paths.logs / "ossec.log").write_text(text)


async def texts(world: World, name: str = LOGS, /, **params: Any) -> list[str]:
    return [item["description"].strip() for item in (await world.outcome(name, **params)).items]


async def test_newest_first(alone: World) -> None:
    write_log(alone)
    assert await texts(alone) == ["scan", "broken list", "slow", "broken rule\nin file a.xml", "started"]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"level": "error", "tag": "secmon-analysisd", "limit": 1}, ["broken list"]),
        ({"level": "debug2"}, []),
        ({"tag": "secmon-modulesd:syscollector"}, ["scan"]),
        ({"sort": "timestamp", "limit": 2}, ["started", "slow"]),
        ({"sort": "-level,timestamp", "limit": 3}, ["slow", "started", "broken list"]),
        ({"q": "level=error;timestamp>2026-01-02T10:00:01Z"}, ["broken list"]),
        ({"search": "broken", "offset": 1}, ["broken rule\nin file a.xml"]),
    ],
)
async def test_selection(alone: World, params: dict[str, Any], expected: list[str]) -> None:
    write_log(alone)
    assert await texts(alone, **params) == expected


async def test_select_and_distinct(alone: World) -> None:
    write_log(alone)
    outcome = await alone.outcome(LOGS, select=["level"], distinct=True, sort="level")
    assert [item["level"] for item in outcome.items] == ["debug", "error", "info", "warning"]
    assert outcome.total == 4
    with pytest.raises(SecmonError) as caught:
        await alone.run(LOGS, select=["pid"])
    assert caught.value.code == 1724


def test_the_limit_is_500() -> None:
    operation = CATALOGUE.get(LOGS)
    assert operation is not None
    given = [("level", "error"), ("tag", "secmon-analysisd"), ("limit", "501")]
    with pytest.raises(ParameterError, match="501"):
        read_text(operation.parameters, given, {})
    assert read_text(operation.parameters, [("limit", "500")], {}) == {"limit": 500}


async def test_the_summary_is_sorted_and_adds_up(alone: World) -> None:
    write_log(alone)
    items = (await alone.outcome("GET /manager/logs/summary")).items
    tags = [next(iter(item)) for item in items]
    assert tags == ["secmon-analysisd", "secmon-modulesd:syscollector", "secmon-remoted"]
    for item in items:
        (counts,) = item.values()
        assert counts["all"] == sum(count for name, count in counts.items() if name != "all")
    assert items[0]["secmon-analysisd"] == {
        "all": 3, "info": 1, "error": 2, "critical": 0, "warning": 0, "debug": 0,
    }  # fmt: skip


async def test_logs_are_those_of_the_node(cluster: World) -> None:
    write_log(cluster, "beta")
    for at in ("alpha", "beta", "gamma"):
        assert await texts(cluster, "GET /cluster/{node_id}/logs", node_id="beta", limit=1, at=at) == ["scan"]
        summary = await cluster.outcome("GET /cluster/{node_id}/logs/summary", node_id="beta", at=at)
        assert len(summary.items) == 3


async def test_without_a_log(cluster: World) -> None:
    """A removed log is no fault: the next message creates it again."""
    node = {"node_id": "beta"}
    for name, params in ((LOGS, {}), ("GET /cluster/{node_id}/logs", node), (f"{LOGS}/summary", {})):
        outcome = await cluster.outcome(name, **params)
        assert (outcome.items, outcome.failures) == ([], [])
