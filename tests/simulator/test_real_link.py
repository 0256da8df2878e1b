"""Fleets against the real link, in one process: two readings of the protocol, written apart, must agree."""

import json
from collections import Counter
from dataclasses import replace
from hashlib import md5, sha1
from pathlib import Path

import pytest
from sqlalchemy import select

from secmon.agents.registry.registry import New, import_agents
from secmon.agents.registry.schema import agents as table
from secmon.agents.wire.keys import AgentKey, agent_id
from secmon.config.remote import RemoteBlock
from secmon.simulator import Fleet, Misbehaviour, Options, Server
from secmon.simulator.options import Transport
from tests.agentlink.field import KEY, Field, field
from tests.simulator.test_agents import MERGED, QUICK
from tests.simulator.test_commands import NAME, PACKAGE
from tests.waiting import until

pytestmark = pytest.mark.anyio

VERSIONS = ("v3.0.0", "v3.13.6", "v4.0.4", "v4.1.5", "v4.3.11", "v4.8.2")
STEADY = replace(QUICK, notify=0.5, silence=10.0, ack_wait=10.0)


async def enrol(link: Field, count: int) -> list[AgentKey]:
    """Agents that the link knows."""
    keys = [AgentKey(agent_id(number), f"agent-{number}", "any", KEY) for number in range(1, count + 1)]
    with link.store.write() as connection:
        import_agents(connection, [New(name=key.name, id=int(key.id), key=key.key) for key in keys], now=1)
    await link.server.registry.refresh()
    return keys


def where(link: Field, transport: Transport = "tcp") -> Server:
    return Server("127.0.0.1", link.tcp if transport == "tcp" else link.udp, transport=transport)


async def statuses(link: Field) -> Counter[str]:
    await link.server.states.flush()
    with link.store.read() as connection:
        return Counter(connection.execute(select(table.c.connection_status)).scalars())


@pytest.mark.parametrize("transport", ["tcp", "udp"])
async def test_all_hosts_of_all_versions(tmp_path: Path, transport: Transport) -> None:
    async with field(tmp_path) as link:
        keys = await enrol(link, 66)
        options = Options(timing=STEADY, versions=VERSIONS, labels={"env": "test", "!owner": "blue"}, reenrol=False)
        async with Fleet([where(link, transport)], keys, options=options) as fleet:
            await fleet.until(lambda c: c.connected == 66 and c.acked >= 200)
            assert (await statuses(link))["active"] == 66
            assert fleet.counters.losses == 0
            with link.store.read() as connection:
                rows = connection.execute(select(table)).mappings().all()
        for row, agent in zip(rows, fleet.agents, strict=True):
            assert row["version"] == f"Wazuh {agent.dialect.version}"
            assert row["os_platform"]
            assert ["env", "test"] in json.loads(row["labels"])
            assert (row["ip"] == "127.0.0.1") == (agent.dialect.own_address or row["register_ip"] == "127.0.0.1")
        by_shutdown = sum(agent.dialect.shutdown for agent in fleet.agents)
        await until(lambda: link.server.counts.shutdown == by_shutdown)
        assert (await statuses(link))["disconnected"] == by_shutdown
        assert link.server.counts.unknown == 0


@pytest.mark.parametrize("transport", ["tcp", "udp"])
async def test_group_files(tmp_path: Path, transport: Transport) -> None:
    async with field(tmp_path) as link:
        keys = await enrol(link, 30)
        link.write_merged("default", MERGED)
        options = Options(timing=STEADY, versions=VERSIONS, reenrol=False)
        async with Fleet([where(link, transport)], keys, options=options) as fleet:
            await fleet.until(lambda _: fleet.sums[md5(MERGED).hexdigest()] == 30)
            changed = MERGED + b"!3000 big\n" + b"line\n" * 600
            link.write_merged("default", changed)
            await fleet.until(lambda _: fleet.sums[md5(changed).hexdigest()] == 30)
            assert fleet.counters.pushes_bad == 0
            assert fleet.counters.restarts == 60
            await until(
                lambda: (
                    not [
                        agent
                        for agent in link.server.agents.by_number.values()
                        if agent.delivery.config_status != "synced"
                    ]
                )
            )


@pytest.mark.parametrize("transport", ["tcp", "udp"])
async def test_requests_and_commands(tmp_path: Path, transport: Transport) -> None:
    async with field(tmp_path, answer_seconds=1.0, repeat_seconds=0.1) as link:
        keys = await enrol(link, 3)
        options = Options(timing=STEADY, misbehave={Misbehaviour.MUTE: 1}, reenrol=False)
        async with Fleet([where(link, transport)], keys, options=options) as fleet:
            await fleet.until(lambda c: c.connected == 3)
            assert (await link.server.service.request(1, "agent", b"getconfig client")).startswith(b'ok {"client":')
            silent = await link.server.service.request(3, "agent", b"getstate")
            assert silent in (b"err Response timeout", b"err Maximum attempts exceeded")
            assert not await link.server.service.send([(1, 'execd {"command":"x0"}'), (2, "force_reconnect")])
            await fleet.until(lambda c: c.commands == 2 and c.connected == 3)
            assert [each.name for each in fleet.commands] == ["x0", "force_reconnect"]


async def test_upgrade(tmp_path: Path) -> None:
    async with field(tmp_path) as link:
        keys = await enrol(link, 1)
        options = Options(timing=STEADY, versions=("v4.0.4",), reenrol=False)
        async with Fleet([where(link)], keys, options=options) as fleet:
            await fleet.until(lambda c: c.connected == 1)
            name = NAME.encode()
            for command in (b"open wb " + name, b"write %d %b %b" % (len(PACKAGE), name, PACKAGE), b"close " + name):
                assert await link.server.service.request(1, "com", command) == b"ok "
            digest = await link.server.service.request(1, "com", b"sha1 " + name)
            assert digest == b"ok " + sha1(PACKAGE).hexdigest().encode()
            assert (await link.server.service.request(1, "com", b"upgrade %b upgrade.sh" % name)).startswith(b"ok 0")
            await fleet.until(lambda c: c.reports == 1)
            await until(lambda: link.reports)
            assert json.loads(link.reports[0][1])["parameters"]["status"] == "Done"
            answer = await link.server.service.request(
                1, "upgrade", b'{"command":"clear_upgrade_result","parameters":{}}'
            )
            assert json.loads(answer)["error"] == 0
            assert fleet.counters.clears == 1


async def test_every_event_reaches_the_journal(tmp_path: Path) -> None:
    async with field(tmp_path) as link:
        keys = await enrol(link, 20)
        options = Options(timing=STEADY, events_per_second=100.0, content=("logs", "fim", "inventory"), reenrol=False)
        async with Fleet([where(link)], keys, options=options) as fleet:
            await fleet.until(lambda c: c.events >= 3000)
            fleet.set_rate(0)
            sent = fleet.counters.events
            found = await link.events(sent)  # before the end: what a close leaves unsent is lost
        assert len(found) == sent
        assert all(event[1:3] == b":[" for event in found)


@pytest.mark.parametrize("kind", [kind for kind in Misbehaviour if kind is not Misbehaviour.BAD_UPGRADE])
async def test_bad_agents_do_not_disturb_the_others(tmp_path: Path, kind: Misbehaviour) -> None:
    block = RemoteBlock(port=0, protocols=("tcp",), local_ip="127.0.0.1", overtake_seconds=1)
    async with field(tmp_path, block=block) as link:
        link.write_merged("default", MERGED)
        keys = await enrol(link, 15)
        options = Options(
            timing=replace(STEADY, silence=5.0), misbehave={kind: 5}, events_per_second=5.0, reenrol=False
        )
        async with Fleet([where(link)], keys, options=options) as fleet:
            wanted = md5(MERGED).hexdigest()
            await fleet.until(lambda _: fleet.sums[wanted] >= 10 and fleet.not_connected == 0)
            beats = fleet.counters.keepalives
            await fleet.until(lambda c: c.keepalives >= beats + 40)
            link.write_merged("default", MERGED + b"!1 z\nz")
            again = md5(MERGED + b"!1 z\nz").hexdigest()
            await fleet.until(lambda _: fleet.sums[again] >= 10 and fleet.not_connected == 0)
            assert {agent.merged_sum for agent in fleet.agents[:10]} == {again}
