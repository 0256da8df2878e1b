"""Rulesets, log tests and events over HTTP: types of bodies, statuses, limits."""

from collections.abc import AsyncIterator

import httpx
import pytest

from secmon.api.limits import EVENT_REQUESTS
from secmon.api.server import ApiServer
from secmon.cluster.catalogue import CATALOGUE
from tests.api.toys import LocalRouter, api_config
from tests.operations.analyst import LOGIN_RULE, SHOP_RULES, analysing, stocked
from tests.operations.world import PASSWORD, World

pytestmark = pytest.mark.anyio

OCTETS = {"Content-Type": "application/octet-stream"}


@pytest.fixture
async def client(alone: World) -> AsyncIterator[httpx.AsyncClient]:
    """An administrator at a server of the real catalogue, on a node with files and an engine."""
    node = stocked(alone).node
    node.api_config = api_config()
    server = ApiServer(node, LocalRouter(node, CATALOGUE), CATALOGUE)
    server.bind()
    async with analysing(node):
        await server.start()
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
                answer = await client.post("/security/user/authenticate?raw=true", auth=("admin", PASSWORD))
                client.headers["Authorization"] = f"Bearer {answer.text}"
                yield client
        finally:
            await server.stop(grace=1.0)


async def test_a_file_there_and_back(client: httpx.AsyncClient) -> None:
    answer = await client.put("/rules/files/own.xml", content=LOGIN_RULE, headers=OCTETS)
    assert (answer.status_code, answer.json()["data"]["affected_items"]) == (200, ["etc/rules/own.xml"])
    answer = await client.get("/rules?rule_ids=100900,100731&select=id,groups")
    assert answer.json()["data"]["affected_items"] == [
        {"id": 100731, "groups": ["fraud", "shop"]},
        {"id": 100900, "groups": ["own"]},
    ]
    answer = await client.get("/rules/files/shop_rules.xml?raw=true")
    assert (answer.content, answer.headers["content-type"]) == (SHOP_RULES, "application/xml; charset=utf-8")
    answer = await client.delete("/rules/files/own.xml")
    assert answer.json()["error"] == 0


@pytest.mark.parametrize(
    ("method", "path", "kind", "content", "status", "code"),
    [
        ("PUT", "/rules/files/own.xml", "application/xml", LOGIN_RULE, 406, 6002),
        ("PUT", "/rules/files/own.xml", "application/octet-stream", b"\xff", 400, 1911),
        ("PUT", "/rules/files/own.txt", "application/octet-stream", b"", 400, None),
        ("PUT", "/rules/files/own.xml?relative_dirname=/tmp", "application/octet-stream", b"", 400, None),
        ("PUT", "/lists/files/a.b", "application/octet-stream", b"", 400, None),
        ("PUT", "/logtest", "text/plain", b'{"event":"a","log_format":"b","location":"c"}', 406, 6002),
        ("PUT", "/logtest", "application/json", b'{"event":"a","log_format":"b"}', 400, None),
        ("POST", "/events", "text/plain", b'{"events":["a"]}', 406, 6002),
        ("POST", "/events", "application/json", b'{"events":["a"],"b":1}', 400, None),
    ],
)
async def test_bodies(
    client: httpx.AsyncClient, method: str, path: str, kind: str, content: bytes, status: int, code: int | None
) -> None:
    answer = await client.request(method, path, content=content, headers={"Content-Type": kind})
    assert (answer.status_code, answer.json().get("error")) == (status, code), answer.text


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/rules?nist-800-53=x", 200, 0),
        ("/rules?nist_800_53=x", 400, None),
        ("/rules?level=1-2-3", 400, None),
        ("/rules?STATUS=all", 400, None),
        ("/rules?status=ALL&limit=1", 200, 0),
        ("/rules/requirement/nist-800-53", 200, 0),
        ("/rules/requirement/iso", 400, None),
        ("/rules/files?filename=a.xml,b.xml", 200, 0),
        ("/rules/files?filename=a", 400, None),
        ("/decoders/parents?limit=1", 200, 0),
        (f"/rules?offset={'9' * 19}", 200, 0),
        (f"/rules/groups?offset={'9' * 40}", 200, 0),
        ("/lists?relative_dirname=etc/lists", 200, 0),
        ("/manager/configuration/analysis/remote", 400, 1128),
        ("/manager/stats?date=2024-13-01", 400, None),
        ("/manager/stats?date=2024-12-01", 400, 1308),
        ("/manager/daemons/stats?daemons_list=other", 400, None),
    ],
)
async def test_statuses(client: httpx.AsyncClient, path: str, status: int, code: int | None) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.json().get("error")) == (status, code), answer.text


async def test_events_have_a_limit_of_their_own(client: httpx.AsyncClient) -> None:
    for number in range(EVENT_REQUESTS):
        answer = await client.post("/event" if number % 2 else "/events", json={"events": [f"event {number}"]})
        assert answer.json()["data"]["affected_items"] == [f"event {number}"]
    for path in ("/events", "/event"):
        answer = await client.post(path, json={"events": ["x"]})
        assert (answer.status_code, answer.json()["error"]) == (429, 6005)
        assert "remediation" not in answer.json()
    assert (await client.get("/rules?limit=1")).status_code == 200


async def test_a_log_test(client: httpx.AsyncClient) -> None:
    body = {"event": "x", "log_format": "syslog", "location": "here"}
    answer = await client.put("/logtest", json=body)
    token = answer.json()["data"]["token"]
    assert (await client.delete(f"/logtest/sessions/{token}")).json()["data"]["codemsg"] == 0


async def test_the_log_shows_how_many_events(client: httpx.AsyncClient, alone: World) -> None:
    await client.post("/event", json={"events": ["secret one", "secret two"]})
    await client.get("/")
    text = (alone.nodes["manager"].node.paths.logs / "api.log").read_text()
    assert '"POST /event" with parameters {} and body {"events": 2}' in text
    assert "secret" not in text
