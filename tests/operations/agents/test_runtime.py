"""What agents and daemons say of single agents (manager.md 7 and 11)."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from secmon.cluster.parameters import ParameterError, read_text
from secmon.common.errors import SecmonError
from secmon.operations.all import CATALOGUE, EXECUTABLE
from tests.agents.rows import agent, put
from tests.operations.analyst import analysing
from tests.operations.fields import MemoryLink
from tests.operations.office import Office
from tests.operations.world import AnsweringPeer, World

pytestmark = pytest.mark.anyio

CONFIG = "GET /agents/{agent_id}/config/{component}/{configuration}"
STATS, COUNTERS = "GET /agents/{agent_id}/stats/{component}", "GET /agents/{agent_id}/daemons/stats"
CLIENT = {"client": {"config-profile": "ubuntu", "crypto_method": "aes"}}
HELD = [
    agent(1, node_name="beta", version="Wazuh v4.8.2", connection_status="active"),
    agent(2, node_name="beta", version="Wazuh v4.8.2", connection_status="disconnected"),
    agent(3, node_name="beta", version="Wazuh v3.6.1", connection_status="active"),
    agent(4, node_name="beta", connection_status="active"),
]


@pytest.fixture
def empty_world(tmp_path: Path, security_db: Path) -> Iterator[World]:
    world = World(tmp_path, security_db, catalogue=EXECUTABLE)
    yield world
    world.close()


@pytest.fixture
def link(empty_world: World) -> MemoryLink:
    """That of beta, which has all agents."""
    for name in ("alpha", "beta"):
        with empty_world.start(name).node.agents.write() as connection:
            put(connection, HELD)
    link = empty_world.nodes["beta"].node.services.agent_link = MemoryLink()
    return link


@pytest.fixture
def office(link: MemoryLink, empty_world: World) -> Office:
    return Office(empty_world)


async def config(office: Office, agent: str = "001", component: str = "agent", name: str = "client") -> Any:
    return (await office.ask(CONFIG, agent_id=agent, component=component, configuration=name))["data"]


class TestConfiguration:
    async def test_of_an_agent(self, office: Office, link: MemoryLink) -> None:
        link.answers[1, "agent", b"getconfig client"] = b"ok " + json.dumps(CLIENT).encode()
        assert await config(office) == CLIENT
        link.answers[1, "com", b"getconfig logging"] = b'ok  {"logging":{"plain":"yes"}}'
        assert await config(office, component="com", name="logging") == {"logging": {"plain": "yes"}}

    @pytest.mark.parametrize(
        ("answer", "code"),
        [
            (b"err Could not get requested section", 1116),
            (b"err Unrecognized command", 1116),
            (b"err No such file or directory", 1117),
            (b"err Cannot send request", 1117),
            (b"err Response timeout", 1117),
            (b"ok", 1118),
            (b"ok {", 1118),
            (b"", 1116),
        ],
    )
    async def test_invalid_answers(self, office: Office, link: MemoryLink, answer: bytes, code: int) -> None:
        link.answers[1, "agent", b"getconfig client"] = answer
        with pytest.raises(SecmonError) as caught:
            await config(office)
        assert caught.value.code == code
        assert caught.value.kind.status == (500 if code == 1118 else 400)

    @pytest.mark.parametrize(
        ("one", "code", "status"), [("002", 1740, 400), ("003", 1735, 500), ("009", 1701, 404), ("0001", 1701, 404)]
    )
    async def test_agents_that_cannot_be_asked(self, office: Office, one: str, code: int, status: int) -> None:
        refused = await office.refused(CONFIG, agent_id=one, component="agent", configuration="client")
        assert (refused.code, refused.kind.status) == (code, status)

    async def test_pairs(self, office: Office, link: MemoryLink) -> None:
        refused = await office.refused(CONFIG, agent_id="001", component="com", configuration="client")
        assert (refused.code, refused.extra) == (1128, "com: active-response, logging, internal, cluster")
        operation = CATALOGUE.get(CONFIG)
        assert operation is not None
        with pytest.raises(ParameterError):
            read_text(operation.parameters, [], {"agent_id": "001", "component": "x", "configuration": "client"})

    async def test_of_the_manager(self, office: Office) -> None:
        control = office.world.nodes["alpha"].control
        control.configs["secmon-remoted"] = {"remote": [{"port": "1514"}]}
        control.configs["secmon-analysisd"] = {"active_response": [{"command": "x"}]}
        control.configs["secmon-authd"] = {"auth": {"port": 1515, "password": "hidden"}}
        assert await config(office, "000", "request", "remote") == {"remote": [{"port": "1514"}]}
        assert await config(office, "000", "analysis", "active_response") == {"active-response": [{"command": "x"}]}
        assert await config(office, "000", "auth", "auth") == {"auth": {"port": 1515, "password": "*****"}}
        for component, name, code in (("request", "internal", 1116), ("mail", "global", 1121)):
            refused = await office.refused(CONFIG, agent_id="000", component=component, configuration=name)
            assert refused.code == code

    async def test_permission(self, office: Office) -> None:
        refused = await office.refused(CONFIG, "nobody", agent_id="001", component="agent", configuration="client")
        assert refused.code == 4000

    async def test_a_node_that_does_not_answer(self, office: Office) -> None:
        office.world.peers["beta"] = AnsweringPeer(SecmonError(3022, ids=("beta",)))
        refused = await office.refused(CONFIG, agent_id="001", component="agent", configuration="client")
        assert (refused.code, list(refused.nodes)) == (3022, ["beta"])


async def statistics(office: Office, agent: str = "001", component: str = "agent") -> dict[str, Any]:
    return await office.ask(STATS, agent_id=agent, component=component)


class TestStatistics:
    async def test_of_the_agent(self, office: Office, link: MemoryLink) -> None:
        data = {
            "status": "connected", "last_keepalive": "2024-03-05 10:20:30", "last_ack": "", "msg_count": 12,
            "msg_sent": 40, "msg_buffer": 0, "buffer_enabled": True,
        }  # fmt: skip
        link.answers[1, "agent", b"getstate"] = json.dumps({"error": 0, "data": data}).encode()
        body = await statistics(office)
        assert body["data"]["affected_items"] == [data | {"last_keepalive": "2024-03-05T10:20:30Z"}]

    async def test_of_its_log_collection(self, office: Office, link: MemoryLink) -> None:
        files = [
            {"location": "/var/log/app.log", "events": 5, "bytes": 900, "targets": [{"name": "agent", "drops": 0}]}
        ]
        span = {"start": "2024-03-05 10:20:30", "end": "2024-03-05 10:21:30", "files": files}
        text = json.dumps({"error": 0, "data": {"global": span, "interval": span}}).encode()
        link.answers[1, "logcollector", b"getstate"] = text
        [item] = (await statistics(office, component="logcollector"))["data"]["affected_items"]
        shown = {"start": "2024-03-05T10:20:30Z", "end": "2024-03-05T10:21:30Z", "files": files}
        assert item == {"global": shown, "interval": shown}

    async def test_of_the_manager_s_own_log_files(self, office: Office) -> None:
        async with analysing(office.node) as service:
            service._local_file_counters.add("/var/log/app.log", 5, 900)
            [item] = (await statistics(office, "000", "logcollector"))["data"]["affected_items"]
        files = [
            {"location": "/var/log/app.log", "events": 5, "bytes": 900, "targets": [{"name": "agent", "drops": 0}]}
        ]
        assert [span["files"] for span in (item["global"], item["interval"])] == [files, files]
        assert all(datetime.fromisoformat(item["global"][name]).tzinfo for name in ("start", "end"))

    @pytest.mark.parametrize(
        ("one", "component", "code"),
        [
            ("002", "agent", 1707), ("003", "agent", 1735), ("004", "agent", 1015), ("009", "agent", 1701),
            ("000", "agent", 1310), ("000", "logcollector", 1121),
        ],
    )  # fmt: skip
    async def test_failed_items(self, office: Office, one: str, component: str, code: int) -> None:
        body = await statistics(office, one, component)
        [entry] = body["data"]["failed_items"]
        assert (entry["error"]["code"], entry["id"], body["error"]) == (code, [one], 1)

    @pytest.mark.parametrize(
        ("answer", "code"),
        [(b'{"error":1,"message":"Statistics unavailable"}', 1117), (b"err Response timeout", 1117), (b"[]", 1118)],
    )
    async def test_invalid_answers(self, office: Office, link: MemoryLink, answer: bytes, code: int) -> None:
        link.answers[1, "agent", b"getstate"] = answer
        [entry] = (await statistics(office))["data"]["failed_items"]
        assert (entry["error"]["code"], entry["id"]) == (code, ["001"])

    async def test_a_node_that_does_not_answer(self, office: Office) -> None:
        office.world.nodes["beta"].node.services.agent_link = None
        refused = await office.refused(STATS, agent_id="001", component="agent")
        assert (refused.code, list(refused.nodes)) == (1014, ["beta"])


class TestCounters:
    async def test_of_the_link(self, office: Office) -> None:
        for name in ("secmon-remoted", "wazuh-remoted"):
            body = await office.ask(COUNTERS, agent_id="001", daemons_list=[name])
            counted = [{"uptime": "2026-01-01T00:00:00+00:00", "id": 1, "metrics": {}}]
            item = {"timestamp": "2026-01-01T00:01:00+00:00", "name": "secmon-remoted", "agents": counted}
            assert (body["data"]["affected_items"], body["error"]) == ([item], 0)

    async def test_of_a_daemon_that_does_not_run(self, office: Office) -> None:
        body = await office.ask(COUNTERS, agent_id="001")
        assert [item["name"] for item in body["data"]["affected_items"]] == ["secmon-remoted"]
        [entry] = body["data"]["failed_items"]
        assert (entry["error"]["code"], entry["id"], body["error"]) == (1121, ["secmon-analysisd"], 2)

    @pytest.mark.parametrize(("one", "code"), [("000", 1703), ("009", 1701), ("002", 1707)])
    async def test_failed_items(self, office: Office, one: str, code: int) -> None:
        [entry] = (await office.ask(COUNTERS, agent_id=one))["data"]["failed_items"]
        assert (entry["error"]["code"], entry["id"]) == (code, [one])
