"""What hosts report, over HTTP: names and formats of parameters, statuses."""

from collections.abc import AsyncIterator

import httpx
import pytest

from secmon.api.server import ApiServer
from secmon.inventory import schema
from secmon.operations.all import CATALOGUE
from tests.api.toys import api_config
from tests.offenders import Offenders
from tests.operations.inventory.hosts import package, report
from tests.operations.office import Office
from tests.operations.world import PASSWORD

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(hosts: Office) -> AsyncIterator[httpx.AsyncClient]:
    """An administrator at the master of a cluster."""
    master = hosts.world.nodes["alpha"]
    master.node.api_config = api_config()
    report(
        hosts.world, schema.ports,
        {"agent_id": 2, "item_id": "a", "local_port": 22, "protocol": "tcp", "scan_time": "2024/05/02 10:00:00"},
        {"agent_id": 2, "item_id": "b", "local_port": 53, "protocol": "udp"},
    )  # fmt: skip
    report(hosts.world, schema.packages, package(1, "bash"), package(2, "bash"))
    server = ApiServer(master.node, master.router, CATALOGUE)
    server.bind()
    await server.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
            answer = await client.post("/security/user/authenticate?raw=true", auth=("admin", PASSWORD))
            client.headers["Authorization"] = f"Bearer {answer.text}"
            yield client
    finally:
        await server.stop(grace=1.0)


async def test_filters_are_named_as_fields(client: httpx.AsyncClient) -> None:
    answer = await client.get("/syscollector/002/ports?local.port=22&select=local.port,scan.time")
    assert answer.status_code == 200
    assert answer.json()["data"]["affected_items"] == [
        {"local": {"port": 22}, "scan": {"time": "2024-05-02T10:00:00+00:00"}, "agent_id": "002"}
    ]


STATUSES = [
    ("GET /syscollector/002/ports?local.port=ssh", 400),
    ("GET /syscollector/002/netiface?mtu=-1", 400),
    ("GET /syscollector/002/netproto?dhcp=maybe", 400),
    ("GET /syscollector/002/hardware?limit=1", 400),
    ("GET /syscollector/02/ports", 400),
    ("GET /syscollector/005/ports", 400),
    ("GET /syscollector/002/ports?limit=100001", 400),
    ("GET /syscheck/002?type=REGISTRY_KEY&hash=" + "0" * 40, 200),
    ("GET /syscheck/002?md5=xyz", 400),
    ("GET /rootcheck/002?status=open", 400),
    ("GET /rootcheck/999", 404),
    ("GET /sca/002/checks/demo%20policy?title=%27%20OR%201=1", 200),
    ("DELETE /syscheck/002", 200),
    ("GET /experimental/syscollector/packages", 404),
    ("DELETE /experimental/rootcheck?agents_list=all", 404),
]


async def test_statuses(client: httpx.AsyncClient) -> None:
    with Offenders() as offenders:
        for request_line, status in STATUSES:
            with offenders.row(request_line):
                method, path = request_line.split(" ")
                assert (await client.request(method, path)).status_code == status


async def test_experimental_operations_are_switched_on(client: httpx.AsyncClient, hosts: Office) -> None:
    off = (await client.get("/experimental/syscollector/packages")).json()
    assert off["error"] == 1122
    hosts.world.nodes["alpha"].node.api_config = api_config(experimental_features=True)
    on = (await client.get("/experimental/syscollector/packages?name=bash&limit=1&offset=1")).json()
    assert (on["data"]["affected_items"][0]["agent_id"], on["data"]["total_affected_items"]) == ("002", 2)
    assert (await client.get("/experimental/syscollector/packages?q=name=bash")).status_code == 400
    assert (await client.delete("/experimental/rootcheck")).status_code == 400
