"""Alerts in bulk at a real HTTP server that answers as a search cluster does."""

import json
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import pytest

from secmon.config.outputs import Indexer
from secmon.outputs.delivery import Delivery
from secmon.outputs.indexer.indexer_output import IndexerOutput
from tests.outputs.alert_files import AlertFiles, alert
from tests.outputs.running import Running, running
from tests.outputs.web import Answer, Request, WebServer, web_server
from tests.waiting import until

pytestmark = pytest.mark.anyio


class Cluster:
    """Documents by index and id; templates."""

    def __init__(self) -> None:
        self.documents: dict[tuple[str, str], dict[str, Any]] = {}
        self.templates: dict[str, Any] = {}
        self.repeats = 0
        self.busy = 0
        """Bulk requests in which some documents are refused for the moment."""

    def answer(self, request: Request) -> Answer:
        if request.path.startswith("/_template/"):
            return self._template(request)
        lines = [json.loads(one) for one in request.body.splitlines()]
        items = [self._create(action["create"], made) for action, made in zip(lines[::2], lines[1::2], strict=True)]
        return 200, json.dumps({"errors": True, "items": [{"create": one} for one in items]}).encode()

    def _template(self, request: Request) -> Answer:
        name = request.path.partition("?")[0].rpartition("/")[2]
        if name in self.templates:
            return 400, b'{"error": {"reason": "index_template [wazuh] already exists"}}'
        self.templates[name] = request.json()
        return 200

    def _create(self, action: dict[str, str], document: dict[str, Any]) -> dict[str, Any]:
        key = action["_index"], action["_id"]
        if key in self.documents:
            self.repeats += 1
            return {"status": 409, "error": {"type": "version_conflict_engine_exception"}}
        if document["full_log"] == "bad":
            return {"status": 400, "error": {"type": "mapper_parsing_exception"}}
        if self.busy and document["id"].endswith("3"):
            self.busy -= 1
            return {"status": 429, "error": {"type": "es_rejected_execution_exception"}}
        self.documents[key] = document
        return {"status": 201}

    def numbers(self) -> list[int]:
        return sorted(int(one["id"].partition(".")[2]) for one in self.documents.values())


def indexing(files: AlertFiles, *servers: str, **settings: Any) -> AbstractAsyncContextManager[Running]:
    killed = settings.pop("killed", False)
    output = IndexerOutput(Indexer(hosts=servers, **settings), files.root)
    return running(files, partial(Delivery, output), killed=killed)


async def test_daily_indices_a_template_and_ids(files: AlertFiles) -> None:
    cluster = Cluster()
    async with web_server() as server:
        server.answer = cluster.answer
        async with indexing(files, server.url, username="u", password="p") as out:
            files.number(1)
            files.number(2, timestamp="2026-11-23T01:30:00.000+0200")
            await until(lambda: out.count("delivered") == 2)
    assert [index for index, _ in cluster.documents] == ["wazuh-alerts-4.x-2026.11.22"] * 2
    first = next(iter(cluster.documents.values()))
    assert first == alert(1) | {"@timestamp": "2026-11-22T12:00:00.123+0000"}
    assert cluster.templates["wazuh"]["index_patterns"] == ["wazuh-alerts-4.x-*"]
    assert server.requests[1].headers["content-type"] == "application/x-ndjson"
    assert all(one.headers["authorization"] == "Basic dTpw" for one in server.requests)


async def test_an_existing_template_stays(files: AlertFiles) -> None:
    cluster = Cluster()
    cluster.templates["wazuh"] = "theirs"
    async with web_server() as server:
        server.answer = cluster.answer
        async with indexing(files, server.url) as out:
            files.number(1)
            await until(lambda: out.count("delivered") == 1)
    assert cluster.templates == {"wazuh": "theirs"}


async def test_some_are_refused_for_now_and_some_for_good(files: AlertFiles) -> None:
    cluster = Cluster()
    cluster.busy = 2
    async with web_server() as server:
        server.answer = cluster.answer
        async with indexing(files, server.url) as out:
            files.number(1, 3, 4)
            files.number(5, full_log="bad")
            files.number(6)
            await until(lambda: out.count("delivered") == 4)
            await until(lambda: out.count("refused") == 1)
    assert cluster.numbers() == [1, 3, 4, 6]


async def test_a_kill_doubles_nothing(files: AlertFiles) -> None:
    cluster = Cluster()
    async with web_server() as server:
        server.answer = cluster.answer
        for start in range(0, 300, 100):
            async with indexing(files, server.url, killed=True):
                files.number(*range(start, start + 100))
                await bulk(server, cluster, start + 100)
        async with indexing(files, server.url) as out:
            files.number(300)
            await bulk(server, cluster, 301)
            await until(lambda: out.count("delivered") > 0)
    assert cluster.numbers() == list(range(301))


async def bulk(server: WebServer, cluster: Cluster, count: int) -> None:
    await until(lambda: len(cluster.documents) >= count)


async def test_the_next_host_when_one_does_not_answer(files: AlertFiles) -> None:
    cluster = Cluster()
    async with web_server() as gone, web_server() as server:
        gone.answer = lambda request: "close" if "_bulk" in request.path else 200
        server.answer = cluster.answer
        async with indexing(files, gone.url, server.url) as out:
            files.number(1)
            await until(lambda: out.count("delivered") == 1)
    assert cluster.numbers() == [1]


@pytest.mark.parametrize(
    "body", [b"[]", b"{}", b'{"items": [1]}', b"no JSON", b'{"items": [{"create": {"status": "x"}}]}']
)
async def test_an_answer_of_another_kind_is_no_success(files: AlertFiles, body: bytes) -> None:
    async with web_server() as server:
        server.answer = lambda request: (200, body)
        async with indexing(files, server.url) as out:
            files.number(1)
            await until(lambda: out.count("failures"))
            assert out.count("delivered") == 0
