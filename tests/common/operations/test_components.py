"""Configuration in force (manager.md 7)."""

import pytest

from tests.common.operations.analyst import analysing, stocked
from tests.common.operations.office import Office
from tests.common.operations.world import World

pytestmark = pytest.mark.anyio

HERE = "GET /manager/configuration/{component}/{configuration}"
THERE = "GET /cluster/{node_id}/configuration/{component}/{configuration}"


@pytest.fixture
def office(alone: World) -> Office:
    running = alone.start(clustered=False) if not alone.nodes else next(iter(alone.nodes.values()))
    running.control.configs["secmon-remoted"] = {"remote": [{"port": "1514"}]}
    running.control.configs["secmon-analysisd"] = {"active_response": [{"command": "x"}], "alerts": {}}
    running.control.configs["secmon-clusterd"] = {"cluster": {"name": "eu", "key": "secret"}}
    return Office(alone)


async def test_sections_of_daemons(office: Office) -> None:
    assert await office.one(HERE, component="request", configuration="remote") == {"remote": [{"port": "1514"}]}
    item = await office.one(HERE, component="analysis", configuration="active_response")
    assert item == {"active-response": [{"command": "x"}]}
    item = await office.one(HERE, component="com", configuration="cluster")
    assert item == {"cluster": {"name": "eu", "key": "*****"}}


async def test_what_there_is_not(office: Office) -> None:
    refused = await office.refused(HERE, component="analysis", configuration="remote")
    assert refused.code == 1128
    assert "active_response" in refused.message
    assert await office.failed(HERE, component="csyslog", configuration="csyslog") == [(1121, ["manager"])]
    assert await office.failed(HERE, component="analysis", configuration="rules") == [(1116, ["manager"])]
    assert await office.failed(HERE, component="wazuh-db", configuration="wdb") == [(1121, ["manager"])]
    assert (await office.refused(HERE, "nobody", component="request", configuration="remote")).code == 4000


async def test_a_node_of_the_cluster(cluster: World) -> None:
    office = Office(cluster)
    cluster.nodes["beta"].control.configs["secmon-authd"] = {"auth": {"port": 1515}}
    item = await office.one(THERE, node_id="beta", component="auth", configuration="auth")
    assert item == {"auth": {"port": 1515}}
    assert await office.failed(THERE, node_id="gamma", component="auth", configuration="auth") == [(1121, ["gamma"])]
    assert (await office.refused(THERE, node_id="beta", component="auth", configuration="global")).code == 1128


async def test_what_the_engine_has_in_force_can_be_shown(alone: World) -> None:
    office = stocked(alone)
    running = next(iter(alone.nodes.values()))
    async with analysing(office.node) as service:
        running.control.configs["secmon-analysisd"] = service.active_config()
        for name in ("global", "alerts", "command", "rule_test", "internal", "rules", "decoders"):
            assert list(await office.one(HERE, component="analysis", configuration=name)) == [name]
