"""``POST /events`` with a real engine behind its socket (analysis-api.md 7)."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from secmon.cluster.catalogue import CATALOGUE
from secmon.cluster.parameters import ParameterError
from secmon.operations.bodies import read_body
from secmon.operations.ruleset.events import HEADER, MAX_MESSAGE
from tests.operations.analyst import LOGIN_RULE, analysing, stocked
from tests.operations.office import Office
from tests.operations.world import World
from tests.waiting import until

pytestmark = pytest.mark.anyio

POST = "POST /events"
LONGEST = MAX_MESSAGE - len(HEADER)


@pytest.fixture
async def office(alone: World) -> AsyncIterator[Office]:
    office = stocked(alone)
    (office.node.paths.etc / "rules/own.xml").write_bytes(LOGIN_RULE)
    async with analysing(office.node):
        yield office


def alerts(office: Office) -> list[dict[str, Any]]:
    file = office.node.paths.logs / "alerts/alerts.json"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


async def test_events_become_alerts(office: Office) -> None:
    events = ["grocery one", '{"k": "grocery two"}', "grocery one"]
    body = await office.ask(POST, body={"events": events})
    assert (body["error"], body["data"]["affected_items"]) == (0, events)
    await until(lambda: len(alerts(office)) == 3)
    assert {(one["location"], one["agent"]["id"]) for one in alerts(office)} == {("API-Webhook", "000")}
    assert [one["full_log"] for one in alerts(office)] == events


async def test_the_other_name(office: Office) -> None:
    assert (await office.ask("POST /event", body={"events": ["a"]}))["data"]["affected_items"] == ["a"]


async def test_sizes(office: Office) -> None:
    fits, long = "é" * (LONGEST // 2), "é" * (LONGEST // 2 + 1)
    body = await office.ask(POST, body={"events": [fits, long]})
    assert (body["error"], body["data"]["affected_items"]) == (2, [fits])
    [failed] = body["data"]["failed_items"]
    assert (failed["error"]["code"], failed["id"]) == (1012, [long])
    body = await office.ask(POST, body={"events": []})
    assert (body["error"], body["data"]["total_affected_items"]) == (0, 0)


@pytest.mark.parametrize(
    "body", [{}, {"events": "a"}, {"events": [1]}, {"events": [], "more": 1}, {"events": ["a"] * 101}, []]
)
async def test_bodies_that_are_refused(body: Any) -> None:
    operation: Any = CATALOGUE.get(POST)
    with pytest.raises(ParameterError):
        read_body(json.dumps(body).encode(), operation.body.schema)


async def test_too_many_events() -> None:
    operation: Any = CATALOGUE.get(POST)
    with pytest.raises(ParameterError, match=r"is too long - 'events'") as caught:
        read_body(json.dumps({"events": ["a"] * 101}).encode(), operation.body.schema)
    assert caught.value.title == "Events bulk size exceeded"


async def test_permissions(office: Office) -> None:
    assert (await office.refused(POST, "nobody", body={"events": ["a"]})).code == 4000


async def test_without_an_engine(alone: World) -> None:
    office = stocked(alone)
    assert (await office.refused(POST, body={"events": ["a"]})).code == 1010
    async with analysing(office.node):
        pass
    assert (await office.refused(POST, body={"events": ["a"]})).code == 1010


async def test_an_engine_that_takes_nothing_now(alone: World) -> None:
    office = stocked(alone)
    async with analysing(office.node) as service:
        assert service.local_events is not None
        service.local_events.stop()
        assert await office.failed(POST, body={"events": ["a", "b"]}) == [(1014, ["a", "b"])]
