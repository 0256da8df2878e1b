"""Configuration in force (manager.md 7)."""

from typing import Any

import pytest

from secmon.config.main import load_main_config
from secmon.daemons.db import InventoryDaemon
from secmon.daemons.modulesd import ModulesDaemon
from secmon.daemons.node_builder import read_installation
from tests.operations.analyst import analysing, stocked
from tests.operations.office import Office
from tests.operations.world import World

pytestmark = pytest.mark.anyio

HERE = "GET /manager/configuration/{component}/{configuration}"
OF_AGENT = "GET /agents/{agent_id}/config/{component}/{configuration}"
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


async def test_the_section_of_the_cluster(cluster: World) -> None:
    office = Office(cluster)
    cluster.nodes["beta"].control.configs["secmon-clusterd"] = {"cluster": {"name": "eu", "key": "secret"}}
    item = await office.one(THERE, node_id="beta", component="com", configuration="cluster")
    assert item == {"cluster": {"name": "eu", "key": "*****"}}


JOBS = [
    ("com", "active-response", "active-response"),
    ("com", "logging", "logging"),
    ("com", "internal", "internal"),
    ("com", "cluster", "cluster"),
    ("monitor", "global", "monitord"),
    ("monitor", "internal", "monitord"),
    ("secmon-db", "wdb", "wdb"),
    ("wazuh-db", "internal", "wazuh_db"),
    ("wmodules", "wmodules", "wmodules"),
    ("logcollector", "localfile", "localfile"),
    ("logcollector", "socket", "target"),
    ("logcollector", "internal", "internal"),
    ("agent", "labels", "labels"),
    ("agent", "internal", "internal"),
]


async def test_jobs_of_daemons_that_this_product_has_not(alone: World) -> None:
    """The real daemons' sections, by the names of the public components; of agent 000 too."""
    office = stocked(alone)
    running = next(iter(alone.nodes.values()))
    main = running.node.paths.main_config
    main.write_text(
        main.read_text()
        + """<ossec_config><global><agents_disconnection_time>5m</agents_disconnection_time></global>
        <labels><label key="rack" hidden="yes">b7</label><label key="_own">x</label></labels>
        <active-response><disabled>yes</disabled><repeated_offenders>5, 10</repeated_offenders></active-response>
        <logging><log_format>plain,json</log_format></logging>
        <localfile><location>/var/log/app.log</location><log_format>syslog</log_format></localfile>
        <localfile><command>df</command><log_format>command</log_format></localfile></ossec_config>"""
    )
    running.node.main_config = load_main_config(running.node.paths)
    modules = ModulesDaemon(running.node)
    async with analysing(office.node) as service:
        running.control.configs["secmon-analysisd"] = service.active_config()
        running.control.configs["secmon-modulesd"] = dict(modules.active_config())
        inventory = InventoryDaemon(read_installation(running.node.paths))
        running.control.configs["secmon-db"] = dict(inventory.active_config())
        found: dict[tuple[str, str], Any] = {}
        for component, name, key in JOBS:
            item = await office.one(HERE, component=component, configuration=name)
            answer = await office.ask(OF_AGENT, agent_id="000", component=component, configuration=name)
            assert answer == {"data": item, "error": 0}
            found[component, name] = item[key]
    assert found["com", "active-response"] == {"disabled": "yes", "repeated_offenders": [5, 10]}
    assert found["com", "logging"] == {"plain": "yes", "json": "yes"}
    assert found["com", "cluster"]["key"] == "*****"
    assert found["monitor", "global"] == {"agents_disconnection_time": 300, "agents_disconnection_alert_time": 0}
    assert found["monitor", "internal"]["size_rotate"] == 512 << 20
    assert found["logcollector", "localfile"] == [
        {"file": "/var/log/app.log", "logformat": "syslog", "target": ["agent"]}
    ]
    assert found["agent", "labels"] == [{"value": "b7", "key": "rack", "hidden": "yes"}]
    assert "analysisd" in found["agent", "internal"]


async def test_what_there_is_not(office: Office) -> None:
    refused = await office.refused(HERE, component="analysis", configuration="remote")
    assert refused.code == 1128
    assert "active_response" in refused.message
    assert await office.failed(HERE, component="csyslog", configuration="csyslog") == [(1121, ["manager"])]
    assert await office.failed(HERE, component="analysis", configuration="rules") == [(1116, ["manager"])]
    assert await office.failed(HERE, component="wazuh-db", configuration="wdb") == [(1121, ["manager"])]
    assert await office.failed(HERE, component="agent", configuration="client") == [(1116, ["manager"])]
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
