"""``GET /alerts/top`` and ``GET /alerts/histogram`` over three nodes."""

from datetime import UTC, datetime
from typing import Any

import pytest

from secmon.common.errors import SecmonError
from tests.operations.office import Office
from tests.operations.world import AnsweringPeer

pytestmark = pytest.mark.anyio

TOP, HISTOGRAM = "GET /alerts/top", "GET /alerts/histogram"
NOON = "2026-11-22T12:00:00Z"


@pytest.fixture(autouse=True)
def afternoon(office: Office) -> None:
    office.world.clock.set_wall(datetime(2026, 11, 22, 14, 30, tzinfo=UTC))


async def top(office: Office, user: str = "admin", /, **params: Any) -> dict[str, int]:
    data = (await office.ask(TOP, user, **params))["data"]
    assert data["error"] == 0
    return {one["value"]: one["count"] for one in data["affected_items"]}


async def test_values_are_counted_over_all_nodes(office: Office) -> None:
    assert await top(office, field="agent.id") == {"001": 2, "002": 2, "000": 1, "004": 1}
    assert await top(office, field="agent.id", limit=1) == {"001": 2}
    assert await top(office, q="rule.level>5") == {"5716": 1}
    assert await top(office, field="data.srcport", until="2026-11-22T12:00:02Z") == {"4022": 1}
    assert await top(office, field="nothing") == {}
    assert (await office.ask(TOP, limit=1))["data"]["alerts"] == 6
    assert (await office.refused(TOP, field="full_log")).code == 1408


async def test_who_sees_some_agents_counts_their_alerts_only(office: Office) -> None:
    await office.caller("only", ("alerts:read", "agent:id:001", "allow"))
    assert await top(office, "only", field="agent.id") == {"001": 2}
    assert await top(office, "only", field="agent.name", q="agent.id=002,agent.id=001") == {"host-001": 2}
    data = (await office.ask(HISTOGRAM, "only", since=NOON, interval="1d"))["data"]
    assert data["alerts"] == 2
    await office.caller("none", ("agent:read", "agent:id:*", "allow"))
    assert await top(office, "none", field="agent.id") == {}
    assert (await office.ask(HISTOGRAM, "none"))["data"]["alerts"] == 0


async def test_alerts_by_time(office: Office) -> None:
    data = (await office.ask(HISTOGRAM, since=NOON, until="2026-11-22T12:00:10Z", interval="3s"))["data"]
    times = [f"2026-11-22T12:00:{second:02d}Z" for second in (0, 3, 6, 9)]
    assert data["affected_items"] == [
        {"time": time, "count": count} for time, count in zip(times, (2, 2, 1, 1), strict=True)
    ]
    assert data["alerts"] == 6
    day = (await office.ask(HISTOGRAM))["data"]["affected_items"]
    assert len(day) == 25
    assert [one["count"] for one in day if one["count"]] == [6]
    assert (await office.refused(HISTOGRAM, since="2020-01-01", interval="1s")).code == 1771


async def test_a_node_that_does_not_answer_is_named(office: Office) -> None:
    office.world.peers["gamma"] = AnsweringPeer(SecmonError(3021, ids=("gamma",)))
    for name in (TOP, HISTOGRAM):
        body = await office.ask(name)
        assert body["data"]["alerts"] == 5
        assert list(body["dapi_errors"]) == ["gamma"]
