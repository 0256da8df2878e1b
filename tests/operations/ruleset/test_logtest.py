"""``/logtest`` with a real engine behind its socket (analysis-api.md 6)."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from secmon.cluster.catalogue import CATALOGUE
from secmon.cluster.parameters import ParameterError
from secmon.operations.bodies import read_body
from tests.operations.analyst import LOGIN_RULE, analysing, stocked
from tests.operations.office import Office
from tests.operations.world import World

pytestmark = pytest.mark.anyio

RUN, CLOSE = "PUT /logtest", "DELETE /logtest/sessions/{token}"
LINE = {"event": "grocery 7", "log_format": "syslog", "location": "stdin"}


@pytest.fixture
async def office(alone: World) -> AsyncIterator[Office]:
    office = stocked(alone)
    (office.node.paths.etc / "rules/own.xml").write_bytes(LOGIN_RULE)
    async with analysing(office.node):
        yield office


async def test_a_session_from_begin_to_end(office: Office) -> None:
    body = await office.ask(RUN, body=LINE)
    assert body["error"] == 0
    data = body["data"]
    assert (data["alert"], data["output"]["rule"]["id"]) == (True, "100900")
    assert data["codemsg"] == 1  # of a rule whose list the configuration does not name
    assert "7616" in data["messages"][0]
    again = (await office.ask(RUN, body={**LINE, "token": data["token"]}))["data"]
    assert "messages" not in again
    assert again["output"]["rule"]["firedtimes"] == 2
    closed = await office.ask(CLOSE, token=data["token"])
    assert (closed["error"], closed["data"]["codemsg"]) == (0, 0)
    gone = await office.ask(CLOSE, token=data["token"])
    assert (gone["error"], gone["data"]["codemsg"]) == (0, -1)


async def test_tokens_that_are_none(office: Office) -> None:
    data = (await office.ask(RUN, body={**LINE, "token": "short"}))["data"]
    assert data["codemsg"] == 1
    assert "7309" in data["messages"][0]
    refused = await office.refused(CLOSE, token="short")
    assert refused.code == 7000
    assert "7309" in refused.message


async def test_files_that_were_just_uploaded(office: Office) -> None:
    await office.ask("DELETE /rules/files/{filename}", filename="own.xml")
    data = (await office.ask(RUN, body=LINE))["data"]
    assert data["output"].get("rule", {}).get("id") != "100900"


async def test_events_that_are_too_long(office: Office) -> None:
    refused = await office.refused(RUN, body={**LINE, "event": "x" * 70_000})
    assert refused.code == 7000
    assert "7315" in refused.message


async def test_permissions(office: Office) -> None:
    assert (await office.refused(RUN, "nobody", body=LINE)).code == 4000
    assert (await office.refused(CLOSE, "nobody", token="12345678")).code == 4000


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b'{"event": "a", "log_format": "", "location": "b"}',
        b'{"event": {"a": 1}, "log_format": "json", "location": "b"}',
        b'{"event": "a", "log_format": "syslog", "location": "b", "options": {}}',
    ],
)
async def test_bodies_that_are_refused(body: bytes) -> None:
    operation: Any = CATALOGUE.get(RUN)
    with pytest.raises(ParameterError):
        read_body(body, operation.body.schema)


async def test_without_an_engine(alone: World) -> None:
    office = stocked(alone)
    assert (await office.refused(RUN, body=LINE)).code == 1013
    async with analysing(office.node):
        pass
    assert (await office.refused(RUN, body=LINE)).code == 1013


async def test_sessions_live_on_the_master(cluster: World) -> None:
    office = stocked(cluster)
    async with analysing(office.node):
        data = (await cluster.plain(RUN, at="beta", body=LINE)).data
        assert (await cluster.plain(RUN, at="gamma", body={**LINE, "token": data["token"]})).data["token"] == data[
            "token"
        ]
