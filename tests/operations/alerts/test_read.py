"""``GET /alerts`` over three nodes: pages, permissions, nodes that do not answer."""

from datetime import UTC, datetime
from typing import Any

import pytest

from secmon.common.errors import SecmonError
from tests.offenders import Offenders
from tests.operations.office import Office
from tests.operations.world import AnsweringPeer

pytestmark = pytest.mark.anyio

READ = "GET /alerts"


async def numbers(office: Office, user: str = "admin", /, **params: Any) -> list[int]:
    """Of the alerts of all pages, in pages of two; the total is their number."""
    found: list[int] = []
    cursor: dict[str, Any] = {}
    while True:
        data = (await office.ask(READ, user, limit=2, **params, **cursor))["data"]
        found += [int(one["id"].partition(".")[2]) for one in data["affected_items"]]
        if data["next"] is None:
            assert data["total_affected_items"] == len(found)
            return found
        assert len(data["affected_items"]) == 2
        cursor = {"cursor": data["next"]}


async def test_alerts_of_all_nodes_newest_first(office: Office) -> None:
    assert await numbers(office) == [6, 5, 3, 4, 2, 1]
    assert await numbers(office, at="gamma") == [6, 5, 3, 4, 2, 1]


FILTERS: list[tuple[dict[str, Any], list[int]]] = [
    ({"agents_list": ["002"]}, [3, 2]),
    ({"group": "web"}, [3, 2]),
    ({"group": "web", "agents_list": ["001"]}, []),
    ({"since": "2026-11-22T12:00:03Z"}, [6, 5, 3, 4]),
    ({"until": "2026-11-22 12:00:03"}, [2, 1]),
    ({"since": "now-1w"}, []),
    ({"since": "now-400d", "until": "now"}, [6, 5, 3, 4, 2, 1]),
    ({"level": "12"}, [6]),
    ({"level": "1-5"}, [5, 3, 4, 2, 1]),
    ({"rule_ids": ["5716"], "rule_groups": ["sshd", "x"]}, [6, 5, 3, 4, 2, 1]),
    ({"mitre": ["T1110"]}, []),
    ({"q": "agent.id=004,agent.id=000"}, [6, 5]),
    ({"search": '"failed password" n=4'}, [4]),
]


async def test_filters(office: Office) -> None:
    office.world.clock.set_wall(datetime(2027, 6, 1, tzinfo=UTC))
    with Offenders() as offenders:
        for params, found in FILTERS:
            with offenders.row(params):
                assert await numbers(office, **params) == found


async def test_selected_fields(office: Office) -> None:
    body = await office.ask(READ, select=["rule.level", "agent.id", "missing"], limit=1)
    assert body["data"]["affected_items"] == [{"rule": {"level": 12}, "agent": {"id": "004"}}]


async def test_a_caller_sees_the_alerts_of_permitted_agents_only(office: Office) -> None:
    await office.caller("only", ("alerts:read", "agent:id:001", "allow"))
    assert await numbers(office, "only") == [4, 1]
    assert await numbers(office, "only", q="agent.id=002,agent.id=001") == [4, 1]
    assert await numbers(office, "only", search="-nothing") == [4, 1]
    assert await office.failed(READ, "only", agents_list=["001", "002"]) == [(4000, ["002"])]
    assert (await office.refused(READ, "only", agents_list=["002"])).code == 4000
    await office.caller("others", ("alerts:read", "agent:id:*", "allow"), ("alerts:read", "agent:id:002", "deny"))
    assert await numbers(office, "others") == [6, 5, 4, 1]
    await office.caller("none", ("agent:read", "agent:id:*", "allow"))
    assert await numbers(office, "none") == []


async def test_groups_are_those_of_the_moment_of_the_question(office: Office) -> None:
    await office.caller("of-web", ("alerts:read", "agent:group:web", "allow"))
    assert await numbers(office, "of-web") == [3, 2]
    await office.ask("POST /groups", body={"group_id": "web"})
    await office.ask("PUT /agents/{agent_id}/group/{group_id}", agent_id="001", group_id="web")
    assert await numbers(office, "of-web") == [3, 4, 2, 1]


async def test_a_node_that_does_not_answer_costs_its_alerts_only(office: Office) -> None:
    office.world.peers["gamma"] = AnsweringPeer(SecmonError(3022, ids=("gamma",)))
    body = await office.ask(READ)
    assert [one["id"].partition(".")[2] for one in body["data"]["affected_items"]] == ["5", "3", "4", "2", "1"]
    assert body["data"]["failed_items"][0]["id"] == ["gamma"]
    assert list(body["dapi_errors"]) == ["gamma"]
    assert body["error"] == 2


WRONG: list[tuple[dict[str, Any], int]] = [
    ({"q": "full_log=x"}, 1408),
    ({"q": "("}, 1407),
    ({"search": "..."}, 1407),
    ({"since": "2026-13-45"}, 1412),
    ({"since": "now-5x"}, 1000),
]


async def test_a_wrong_question_is_refused(office: Office) -> None:
    with Offenders() as offenders:
        for params, code in WRONG:
            with offenders.row(params):
                assert (await office.refused(READ, **params)).code == code


async def test_an_alert_and_those_around_it(office: Office) -> None:
    body = await office.ask("GET /alerts/{alert_id}", alert_id="1700000000.3", seconds=1)
    [found] = body["data"]["affected_items"]
    assert found["agent"]["id"] == "002"
    assert [one["id"] for one in body["data"]["around"]] == ["1700000000.2"]
    await office.caller("only", ("alerts:read", "agent:id:001", "allow"))
    for user, number in (("only", 3), ("admin", 77)):
        wanted = f"1700000000.{number}"
        assert await office.failed("GET /alerts/{alert_id}", user, alert_id=wanted) == [(1770, [wanted])]
