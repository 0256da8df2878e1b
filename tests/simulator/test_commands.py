"""What agents do with requests, commands and packages."""

import base64
import json
from hashlib import sha1

import pytest

from secmon.simulator import Misbehaviour
from secmon.simulator.options import Transport
from tests.simulator.server import ScriptedServer
from tests.simulator.test_agents import fleet
from tests.waiting import until

pytestmark = pytest.mark.anyio
PACKAGE = bytes(range(256)) * 9
NAME = "wazuh_agent_v4.8.2_linux_x86_64.wpk"


@pytest.mark.parametrize("transport", ["tcp", "udp"])
async def test_requests_are_answered(server: ScriptedServer, transport: Transport) -> None:
    async with fleet(server, transport=transport, labels={"env": "test"}) as agents:
        await agents.until(lambda c: c.connected == 1)
        for target, name in (
            ("agent", "client"), ("agent", "buffer"), ("agent", "labels"), ("agent", "internal"),
            ("logcollector", "localfile"), ("logcollector", "internal"), ("syscheck", "syscheck"),
            ("syscheck", "rootcheck"), ("syscheck", "internal"), ("wmodules", "wmodules"),
        ):  # fmt: skip
            answer = await server.ask("001", target, f"getconfig {name}".encode())
            assert answer.startswith(b"ok {")
            json.loads(answer[3:])
        assert (await server.ask("001", "com", b"getconfig logging")).startswith(b"ok  {")
        assert await server.ask("001", "agent", b"getconfig nothing") == b"err Could not get requested section"
        assert await server.ask("001", "agent", b"getconfig") == b"err AGENT getconfig needs arguments"
        assert await server.ask("001", "agent", b"dance") == b"err Unrecognized command"
        assert await server.ask("001", "nobody", b"getconfig x") == b"err No such file or directory"
        state = json.loads(await server.ask("001", "agent", b"getstate"))
        assert state["data"]["status"] == "connected"
        assert state["data"]["last_ack"]
        assert json.loads(await server.ask("001", "logcollector", b"getstate"))["error"] == 0
        assert agents.counters.requests == agents.counters.answers == 17


async def test_old_agents_support_fewer_commands(server: ScriptedServer) -> None:
    async with fleet(server, versions=("v3.0.0",)) as agents:
        await agents.until(lambda c: c.connected == 1)
        assert await server.ask("001", "agent", b"getconfig client") == b"err Unrecognized command"
        assert await server.ask("001", "agent", b"getstate") == b"err Unrecognized command"


async def test_lost_and_repeated_datagrams(server: ScriptedServer) -> None:
    async with fleet(server, transport="udp") as agents:
        await agents.until(lambda c: c.connected == 1)
        assert await server.ask("001", "com", b"lock_restart 0", repeats=3) == b"ok "
        assert agents.counters.requests == 1
        await until(lambda: server.acks() == 3)
        server.loses = 2
        await server.ask("001", "agent", b"getstate")
        assert agents.counters.requests == 2


async def test_active_responses_are_recorded(server: ScriptedServer) -> None:
    async with fleet(server) as agents:
        await agents.until(lambda c: c.connected == 1)
        body = {"version": 1, "origin": {}, "command": "firewall-drop180", "parameters": {}}
        server.tell("001", b"#!-execd " + json.dumps(body).encode())
        server.tell("001", b"#!-execd not json")
        server.tell("001", b"#!-syscheck restart")
        server.tell("001", b'#!-syscollector_ports dbsync no_data {"id":1}')
        server.tell("001", b"#!-something new")
        await agents.until(lambda c: c.commands == 5)
        assert [(each.agent, each.kind, each.name) for each in agents.commands] == [
            ("001", "active-response", "firewall-drop180"),
            ("001", "other", ""),
            ("001", "scan", "syscheck restart"),
            ("001", "sync", "syscollector_ports"),
            ("001", "other", "something"),
        ]


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (
            "v4.8.2",
            b'{"version": 1, "command": "restart-wazuh0", "parameters": {}} - null (from_the_server) (no_rule_id)',
        ),
        ("v4.1.5", b"restart-ossec0 - null (from_the_server) (no_rule_id)"),
    ],
)
async def test_restart_command(server: ScriptedServer, version: str, text: bytes) -> None:
    async with fleet(server, versions=(version,)) as agents:
        await agents.until(lambda c: c.connected == 1)
        server.tell("001", b"#!-execd " + text)
        await agents.until(lambda c: c.restarts == 1 and c.connected == 1)
        assert agents.commands[0].kind == "restart"
        await until(lambda: sum(b"Agent started" in text for text in server.agents["001"].texts) == 2)


async def test_forced_reconnection(server: ScriptedServer) -> None:
    async with fleet(server, "new", "old", versions=("v4.8.2", "v4.2.0")) as agents:
        await agents.until(lambda c: c.connected == 2)
        for agent in ("001", "002"):
            server.tell(agent, b"#!-force_reconnect")
        await agents.until(lambda c: c.commands == 2 and c.startups == 3 and c.connected == 2)
        assert agents.counters.losses == 0
        assert len(server.agents["002"].said(b"#!-agent startup")) == 1


async def send_package(server: ScriptedServer, data: bytes) -> list[dict[str, object]]:
    """In the dialect of agents since 4.1."""
    asks: list[tuple[str, dict[str, object]]] = [("open", {"mode": "wb", "file": NAME})]
    for at in range(0, len(data), 500):
        piece = data[at : at + 500]
        buffer = base64.b64encode(piece).decode()
        asks.append(("write", {"buffer": buffer, "length": len(piece), "file": NAME}))
    asks += [("close", {"file": NAME}), ("sha1", {"file": NAME})]
    asks.append(("upgrade", {"file": NAME, "installer": "upgrade.sh"}))
    answers = []
    for command, parameters in asks:
        body = json.dumps({"command": command, "parameters": parameters}).encode()
        answers.append(json.loads(await server.ask("001", "upgrade", body)))
    return answers


async def test_upgrade_and_its_report(server: ScriptedServer) -> None:
    async with fleet(server, versions=("v4.3.0",)) as agents:
        await agents.until(lambda c: c.connected == 1)
        assert await server.ask("001", "com", b"lock_restart -1") == b"ok "
        answers = await send_package(server, PACKAGE)
        assert {answer["error"] for answer in answers} == {0}
        assert answers[-2]["message"] == sha1(PACKAGE).hexdigest()
        assert answers[-1]["message"] == "0"
        report = (
            b'u:upgrade_module:{"command":"upgrade_update_status","parameters":'
            b'{"error":0,"message":"Upgrade was successful","status":"Done"}}'
        )
        assert await server.heard("001", b"u:", 2) == report
        refused = json.loads(await server.ask("001", "upgrade", b'{"command":"open","parameters":{}}'))
        assert refused["error"] == 1
        cleared = await server.ask("001", "upgrade", b'{"command":"clear_upgrade_result","parameters":{}}')
        assert json.loads(cleared)["error"] == 0
        reports = agents.counters.reports
        await agents.until(lambda c: c.keepalives >= 10)
        assert agents.counters.reports == reports
        assert agents.agents[0].dialect.version == "v4.8.2"
        assert "Wazuh v4.8.2" in server.agents["001"].keepalives[-1]


async def test_a_failed_upgrade_is_reported(server: ScriptedServer) -> None:
    async with fleet(server, versions=("v4.3.0",), misbehave={Misbehaviour.BAD_UPGRADE: 1}) as agents:
        await agents.until(lambda c: c.connected == 1)
        await send_package(server, PACKAGE)
        report = await server.heard("001", b"u:upgrade_module:")
        assert json.loads(report[17:])["parameters"] == {"error": 2, "message": "Upgrade failed", "status": "Failed"}
        assert agents.agents[0].dialect.version == "v4.3.0"


async def test_upgrade_of_an_old_agent(server: ScriptedServer) -> None:
    name = NAME.encode()
    async with fleet(server, versions=("v4.0.4",)) as agents:
        await agents.until(lambda c: c.connected == 1)
        assert await server.ask("001", "com", b"write 3 %b abc" % name) == b"err No file opened"
        assert await server.ask("001", "com", b"open wb " + name) == b"ok "
        for at in range(0, len(PACKAGE), 512):
            piece = PACKAGE[at : at + 512]
            assert await server.ask("001", "com", b"write %d %b %b" % (len(piece), name, piece)) == b"ok "
        assert await server.ask("001", "com", b"close " + name) == b"ok "
        assert await server.ask("001", "com", b"sha1 " + name) == b"ok " + sha1(PACKAGE).hexdigest().encode()
        assert await server.ask("001", "com", b"upgrade %b upgrade.sh" % name) == b"ok 0"
        await server.heard("001", b"u:upgrade_module:")
        assert agents.counters.upgrades == 1


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ({"command": "fly", "parameters": {}}, 2),
        ({"command": "open", "parameters": {"file": NAME}}, 3),
        ({"command": "open", "parameters": {"mode": "rb", "file": NAME}}, 4),
        ({"command": "open", "parameters": {"mode": "wb", "file": "../x"}}, 5),
        ({"command": "close", "parameters": {"file": NAME}}, 8),
        ({"command": "sha1", "parameters": {"file": NAME}}, 12),
        ({"command": "upgrade", "parameters": {"file": NAME, "installer": "x"}}, 18),
    ],
)
async def test_bad_upgrade_requests(server: ScriptedServer, command: dict[str, object], error: int) -> None:
    async with fleet(server) as agents:
        await agents.until(lambda c: c.connected == 1)
        assert json.loads(await server.ask("001", "upgrade", json.dumps(command).encode()))["error"] == error


async def test_agent_that_never_answers(server: ScriptedServer) -> None:
    async with fleet(server, misbehave={Misbehaviour.MUTE: 1}) as agents:
        await agents.until(lambda c: c.connected == 1)
        server.tell("001", b"#!-req 1f agent getstate")
        await agents.until(lambda c: c.requests == 1)
        assert agents.counters.answers == 0
