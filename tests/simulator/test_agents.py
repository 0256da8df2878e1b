"""Agents against a scripted server: connections, keepalives, group files, restarts, failover."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from secmon.agents.wire import keepalive
from secmon.agents.wire.crypto import Cipher
from secmon.simulator import PROFILES, Fleet, Options, Server, Timing
from secmon.simulator.host.host_reports import SCANS
from secmon.simulator.options import Misbehaviour, Transport
from tests.simulator.server import ScriptedServer, scripted
from tests.waiting import until

pytestmark = pytest.mark.anyio

QUICK = Timing(
    notify=0.2,
    silence=2.0,
    ack_wait=1.0,
    connect_wait=2.0,
    retry=0.1,
    max_retries=1,
    after_enrolment=0.02,
    enrolment_retry=0.1,
    restart=0.05,
    request_repeat=0.1,
    install=0.05,
    report=0.1,
    report_again=0.2,
)
MERGED = (
    b"#default\n!6 ar.conf\nreset\n!31 agent.conf\n<agent_config>\n</agent_config>\n!0 empty.txt\n!5 b/c d.txt\nbytes"
)
FAULTS = (Misbehaviour.LOSSY, Misbehaviour.SHUFFLE, Misbehaviour.RESTORED, Misbehaviour.WRONG_SUMS)


@asynccontextmanager
async def fleet(
    server: ScriptedServer,
    *names: str,
    transport: Transport = "tcp",
    servers: list[Server] | None = None,
    timing: Timing = QUICK,
    address: str = "any",
    **options: Any,
) -> AsyncIterator[Fleet]:
    """A fleet of agents whose keys the server knows, connected."""
    made = Fleet(
        servers or [server.server(transport)],
        server.add(*(names or ("web-01",)), address=address),
        options=Options(timing=timing, **{"reenrol": False, **options}),
    )
    async with made:
        yield made


async def test_startup_then_keepalive(server: ScriptedServer) -> None:
    async with fleet(server) as agents:
        await agents.until(lambda c: c.connected == 1 and c.acked >= 3)
        texts = server.agents["001"].texts
        assert texts[0] == b'#!-agent startup {"version":"v4.8.2"}'
        assert texts[1].startswith(b"#!-Linux |web-01 |")
        assert texts[2] == b"1:wazuh-agent:ossec: Agent started: 'web-01->127.0.0.1'."
        assert agents.sums["x"] == 1
    await server.heard("001", b"#!-agent shutdown ")
    assert agents.counters.connected == 0


async def test_the_server_parses_keepalives_of_all_hosts_and_versions(server: ScriptedServer) -> None:
    versions = ("v3.0.0", "v3.7.2", "v4.0.4", "v4.1.5", "v4.8.2")
    count = len(versions) * len(PROFILES)  # without a common divisor, so that these are all pairs
    labels = {"env": "test", "!owner": "blue"}
    async with fleet(server, *map("host-{}".format, range(count)), versions=versions, labels=labels) as agents:
        await agents.until(lambda c: c.connected == count)
        await until(lambda: all(each.keepalives for each in server.agents.values()))
        pairs = {(agent.profile.name, agent.dialect.version) for agent in agents.agents}
        assert len(pairs) == count
        for agent in agents.agents:
            conversation = server.agents[agent.id]
            found = keepalive.parse(conversation.keepalives[0])
            assert found.version == f"Wazuh {agent.dialect.version}"
            assert found.merged_sum == "x"
            assert found.labels == ('"env":test', '!"owner":blue')
            system = agent.profile.name.partition("-")[0]
            assert found.system.os_platform == {"amazon": "amzn", "macos": "darwin"}.get(system, system)
            assert conversation.cipher is (Cipher.AES if agent.dialect.aes else Cipher.BLOWFISH)
            assert (found.agent_ip == "127.0.0.1") == agent.dialect.own_address


async def test_agents_of_many_versions_stay(server: ScriptedServer) -> None:
    names = [f"host-{number}" for number in range(20)]
    async with fleet(server, *names, versions=("v3.0.0", "v3.13.6", "v4.0.4", "v4.1.5", "v4.8.2")) as agents:
        await agents.until(lambda c: c.connected == 20 and c.keepalives >= 60)
        assert agents.counters.losses == 0
        assert not server.bad
        old, new = server.agents["001"], server.agents["005"]
        assert old.texts[0] == b"#!-agent startup "
        assert keepalive.complete(old.keepalives[0]) != old.keepalives[0]
        assert keepalive.complete(new.keepalives[0]) == new.keepalives[0]
    assert not old.said(b"#!-agent shutdown")
    assert new.said(b"#!-agent shutdown")


async def test_fixed_address_sends_no_id(server: ScriptedServer) -> None:
    async with fleet(server, address="127.0.0.1") as agents:
        await agents.until(lambda c: c.acked >= 2)


@pytest.mark.parametrize("transport", ["tcp", "udp"])
async def test_group_file_is_taken_and_reported(server: ScriptedServer, transport: Transport) -> None:
    async with fleet(server, transport=transport) as agents:
        await agents.until(lambda c: c.connected == 1)
        announced = server.push("001", MERGED)
        await agents.until(lambda _: agents.sums[announced] == 1)
        await agents.until(lambda c: c.startups == 2 and c.connected == 1)
        agent = agents.agents[0]
        assert agent.file is not None
        assert agent.file.files["b/c d.txt"] == b"bytes"
        last = keepalive.parse(server.agents["001"].keepalives[-1])
        assert last.merged_sum == announced
        assert last.config_sum == md5(agent.file.files["agent.conf"]).hexdigest()
        assert len(server.agents["001"].said(b"#!-agent shutdown ")) == 1
        assert agents.counters.restarts == 1


async def test_group_file_with_another_sum_is_dropped(server: ScriptedServer) -> None:
    async with fleet(server) as agents:
        await agents.until(lambda c: c.connected == 1)
        server.push("001", MERGED, sum_="0" * 32)
        await agents.until(lambda c: c.pushes_bad == 1)
        server.push("001", b"no group file")
        await agents.until(lambda c: c.pushes_bad == 2)
        await server.heard("001", b"1:wazuh-agent:wazuh: Could not unmerge shared file.")
        assert agents.sums["x"] == 1


async def test_an_invalid_group_configuration_is_reported_and_kept(server: ScriptedServer) -> None:
    async with fleet(server) as agents:
        await agents.until(lambda c: c.connected == 1)
        announced = server.push("001", b"#x\n!10 agent.conf\n<a><b></a>")
        await server.heard("001", b"1:wazuh-agent:wazuh: Invalid remote configuration: 'syscheck'. ")
        await agents.until(lambda _: agents.sums[announced] == 1)


async def test_group_files_are_written(server: ScriptedServer, tmp_path: Path) -> None:
    folder = tmp_path / "hosts"
    async with fleet(server, unpack=folder) as agents:
        await agents.until(lambda c: c.connected == 1)
        server.push("001", MERGED)
        written = folder / "001" / "shared"
        await until((written / "b" / "c d.txt").exists)
        await agents.until(lambda c: c.startups == 2 and c.connected == 1)
        server.push("001", b"#default\n!2 new\nab")
        await until(lambda: [path.name for path in written.rglob("*") if path.is_file()] == ["new"])


async def test_restart_waits_for_a_lock(server: ScriptedServer) -> None:
    async with fleet(server) as agents:
        await agents.until(lambda c: c.connected == 1)
        assert await server.ask("001", "com", b"lock_restart 1") == b"ok "
        announced = server.push("001", MERGED)
        await agents.until(lambda _: agents.sums[announced] == 1)
        assert agents.counters.restarts == 0
        await agents.until(lambda c: c.restarts == 1)


async def test_lost_connection_is_made_again_without_a_start_event(server: ScriptedServer) -> None:
    async with fleet(server) as agents:
        await agents.until(lambda c: c.connected == 1)
        server.disconnect()
        await agents.until(lambda c: c.losses == 1 and c.connected == 1)
        conversation = server.agents["001"]
        assert len(conversation.said(b"#!-agent startup")) == 2
        assert len(conversation.said(b"1:wazuh-agent:ossec: Agent started")) == 1


async def test_an_agent_leaves_a_silent_server(server: ScriptedServer) -> None:
    async with fleet(server, timing=replace(QUICK, silence=0.4)) as agents:
        await agents.until(lambda c: c.connected == 1)
        server.acknowledges = False
        await agents.until(lambda c: c.losses >= 1)
        server.acknowledges = True
        await agents.until(lambda c: c.connected == 1)


async def test_next_server_takes_over(server: ScriptedServer, tmp_path: Path) -> None:
    async with scripted(tmp_path) as other:
        other.add("web-01", "web-02")
        both = [server.server(), other.server()]
        async with fleet(server, "web-01", "web-02", servers=both) as agents:
            await agents.until(lambda c: c.connected == 2)
            assert [server.connections, other.connections] == [1, 1]
            await server.go_away()
            await agents.until(lambda c: c.losses == 1 and c.connected == 2)
            assert agents.counters.failovers >= 1
            await server.come_back()
            await other.go_away()
            await agents.until(lambda c: c.losses == 3 and c.connected == 2)
            assert len(server.agents["002"].said(b"#!-agent startup")) == 1


async def test_refused_startup_is_tried_again(server: ScriptedServer) -> None:
    server.refuses_startup = True
    async with fleet(server) as agents:
        await agents.until(lambda c: c.errors >= 2)
        assert agents.counters.connected == 0
        server.refuses_startup = False
        await agents.until(lambda c: c.connected == 1)


async def test_thousand_agents(server: ScriptedServer) -> None:
    names = [f"host-{number}" for number in range(1000)]
    async with fleet(server, *names, timing=replace(QUICK, notify=1.0, silence=30.0, ack_wait=30.0)) as agents:
        await agents.until(lambda c: c.connected == 1000)
        for number in range(1, 1001):
            server.push(f"{number:03d}", MERGED)
        await agents.until(lambda _: agents.sums[md5(MERGED).hexdigest()] == 1000)
        assert agents.counters.pushes == 1000
        assert len({id(agent.file) for agent in agents.agents}) == 1


async def test_events_at_a_rate(server: ScriptedServer) -> None:
    kinds = ("logs", "fim", "inventory", "sca", "rootcheck", "simulator")
    async with fleet(server, "a-1", "a-2", events_per_second=100.0, content=kinds, seed=7) as agents:
        await agents.until(lambda c: c.events >= 200)
        await until(lambda: len(server.agents["001"].texts) >= 90)
    queues = {text[:2] for text in server.agents["001"].texts if not text.startswith(b"#!-")}
    assert queues >= {b"1:", b"8:", b"d:", b"p:", b"9:"}


async def test_events_sealed_once_are_sent_again(server: ScriptedServer) -> None:
    async with fleet(server, events_per_second=200.0, sealed_once=3) as agents:
        await agents.until(lambda c: c.events >= 50)
        await until(lambda: len(server.agents["001"].texts) >= 40)
    events = [text for text in server.agents["001"].texts if text.startswith(b"1:/var")]
    assert len(set(events)) == 3


async def test_hosts_are_reported_and_synchronized(server: ScriptedServer) -> None:
    timing = replace(QUICK, first_scan=0.05, scan=0.5)
    async with fleet(server, timing=timing, scans=SCANS, host_rows=3, reports_per_second=1000) as agents:
        texts = server.agents["001"].texts
        await until(lambda: any(text.startswith(b"5:fim_file:") for text in texts))
        check = json.loads(next(text for text in texts if text.startswith(b"5:fim_file:")).split(b":", 2)[2])
        data = {name: check["data"][name] for name in ("begin", "end", "id")}
        server.tell("001", f"#!-fim_file dbsync no_data {json.dumps(data)}".encode())
        server.tell("001", b"#!-sca-dump:example_linux:1")
        await until(lambda: sum(b'"type":"state"' in text for text in texts) == 3)
        await until(lambda: any(b'"dump_end"' in text for text in texts))
        await until(lambda: any(text.startswith(b'8:syscheck:{"type":"event"') for text in texts))
        await until(lambda: any(text.startswith(b"d:syscollector:") for text in texts))
        assert agents.counters.host_reports >= 30
    assert {text[:2] for text in texts if not text.startswith(b"#!-")} == {b"1:", b"5:", b"8:", b"9:", b"d:", b"p:"}
    assert check["type"] == "integrity_check_global"


@pytest.mark.parametrize("kind", FAULTS)
async def test_faulty_reports(server: ScriptedServer, kind: Misbehaviour) -> None:
    timing = replace(QUICK, first_scan=0.02, scan=0.1)
    options: dict[str, Any] = {"scans": SCANS, "host_rows": 10, "reports_per_second": 1000, "misbehave": {kind: 1}}
    async with fleet(server, timing=timing, **options) as agents:
        texts = server.agents["001"].texts
        await until(lambda: sum(text.startswith(b"5:") for text in texts) >= 40)
        assert agents.counters.connected == 1
