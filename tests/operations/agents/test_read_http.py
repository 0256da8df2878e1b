"""Questions about agents over HTTP: parameters as they are written, statuses, envelopes."""

from collections.abc import AsyncIterator

import httpx
import pytest

from secmon.api.server import ApiServer
from secmon.cluster.catalogue import CATALOGUE
from tests.agents.rows import agent, put
from tests.api.toys import LocalRouter, api_config
from tests.operations.world import PASSWORD, World

pytestmark = pytest.mark.anyio

HELD = [
    agent(1, os_platform="ubuntu", os_name="Ubuntu", group="web"),
    agent(2, os_platform="windows", os_name="Windows 11"),
    agent(3, name="mac 05", os_platform="darwin"),
]


@pytest.fixture
async def client(alone: World) -> AsyncIterator[httpx.AsyncClient]:
    """An administrator at a server of the real catalogue, on a node with three agents."""
    node = alone.nodes["manager"].node
    with node.agents.write() as connection:
        put(connection, HELD)
    node.api_config = api_config()
    server = ApiServer(node, LocalRouter(node, CATALOGUE), CATALOGUE)
    server.bind()
    await server.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
            answer = await client.post("/security/user/authenticate?raw=true", auth=("admin", PASSWORD))
            client.headers["Authorization"] = f"Bearer {answer.text}"
            yield client
    finally:
        await server.stop(grace=1.0)


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("os.platform=ubuntu", ["001"]),
        ("os.name=Windows%2011&select=id", ["002"]),
        ("q=os.platform=ubuntu,id%3E2", ["001", "003"]),
        ("q=os.platform!=ubuntu;id>0", ["002", "003"]),
        ("q=name=mac%2005", ["003"]),
        ("status=Never_Connected&sort=-id&limit=2", ["003", "002"]),
        ("agents_list=002&agents_list=003", ["002", "003"]),
        ("os.platform=&agents_list=", ["000", "001", "002", "003"]),
        ("sort=%2Bname&offset=1&q=id>0", ["002", "003"]),
    ],
)
async def test_queries(client: httpx.AsyncClient, query: str, ids: list[str]) -> None:
    answer = await client.get(f"/agents?{query}")
    assert answer.status_code == 200, answer.text
    assert [item["id"] for item in answer.json()["data"]["affected_items"]] == ids


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/agents?os_platform=ubuntu", 400, None),
        ("/agents?agents_list=1", 400, None),
        ("/agents?agents_list=all", 400, None),
        ("/agents?older_than=1d12h", 400, None),
        ("/agents?search=a%3Eb", 400, None),
        ("/agents?limit=0", 400, None),
        ("/agents?q=foo=1", 400, 1408),
        ("/agents?sort=os", 400, 1403),
        (f"/agents?offset={'9' * 19}", 400, 2003),
        (f"/groups?offset={'9' * 19}", 200, 0),
        ("/agents?select=internal_key", 400, 1724),
        ("/agents/no_group?distinct=true", 400, None),
        ("/agents/outdated?select=id", 400, None),
        ("/agents/stats/distinct?fields=foo", 400, 1724),
        ("/agents/stats/distinct?fields=status&sort=-count", 200, None),
        ("/agents/summary/os/", 200, None),
        ("/agents/uninstall", 200, None),
        ("/overview/agents", 200, None),
    ],
)
async def test_statuses(client: httpx.AsyncClient, path: str, status: int, code: int | None) -> None:
    answer = await client.get(path)
    assert answer.status_code == status, answer.text
    if status != 200:
        assert answer.json().get("error") == code
