"""Control messages: the replies, and the agents' rows in the store."""

from collections.abc import Mapping
from hashlib import md5
from pathlib import Path

import pytest

from secmon.agentlink.settings import link_settings
from secmon.agents.registry.registry import assign, remove
from secmon.agents.state_updates import Origin, Startup, UnchangedKeepalive, apply, sweep
from secmon.common.errors import SecmonError
from secmon.config.main import parse_main_config
from secmon.config.options import InternalOptions
from secmon.config.remote import RemoteBlock
from tests.agentlink.field import ACK, SHUTDOWN, STARTUP, field, keepalive
from tests.manual_clock import ManualClock
from tests.waiting import until

pytestmark = pytest.mark.anyio

HIGHER = b'#!-err {"message":"Agent version must be lower or equal to manager version"}'
UNKNOWN = b'#!-err {"message":"Couldn\'t retrieve version"}'


@pytest.mark.parametrize("text", [STARTUP, b"#!-agent startup ", b"#!-agent startup {broken"])
async def test_accepted_startups(tmp_path: Path, text: bytes) -> None:
    clock = ManualClock()
    async with field(tmp_path, clock=clock) as here:
        agent = await here.agent()
        await agent.send(text)
        assert await agent.receive() == ACK
        row = await here.row(agent.key)
        assert (row["connection_status"], row["status_code"], row["disconnection_time"]) == ("pending", 0, 0)
        assert row["last_keepalive"] == int(clock.now().timestamp())
        assert (row["node_name"], row["manager_host"]) == ("node01", "host-1")


@pytest.mark.parametrize("stream", [True, False])
async def test_refused_startups_are_remembered(tmp_path: Path, stream: bool) -> None:
    async with field(tmp_path) as here:
        agent = await here.agent(stream=stream)
        await agent.send(b'#!-agent startup {"version":"v4.15.0"}')
        assert await agent.receive() == HIGHER
        row = await here.row(agent.key)
        assert (row["status_code"], row["version"], row["connection_status"]) == (1, "v4.15.0", "never_connected")
        await agent.send(keepalive(), b'#!-agent startup {"version":5}')
        assert await agent.receive() == UNKNOWN
        assert (await here.row(agent.key))["status_code"] == 2
        await agent.send(b"#!-agent startup {}")
        assert await agent.receive() == UNKNOWN
        assert (await here.row(agent.key))["last_keepalive"] is None
        await agent.start()
        await agent.beat()
        row = await here.row(agent.key)
        assert (row["status_code"], row["connection_status"]) == (0, "active")
        counts = here.server.counts
        assert (counts.startup, counts.keepalive, counts.control, counts.ack) == (4, 2, 6, 5)


async def test_higher_versions_can_be_allowed(tmp_path: Path) -> None:
    block = RemoteBlock(port=0, local_ip="127.0.0.1", allow_higher_versions=True)
    async with field(tmp_path, block=block) as here:
        agent = await here.agent()
        await agent.send(b'#!-agent startup {"version":"v5.0.0"}')
        assert await agent.receive() == ACK


def test_the_configured_version_is_the_highest() -> None:
    text = "<ossec_config><remote><agents><highest_version>4.15</highest_version></agents></remote></ossec_config>"
    main, options = parse_main_config(text), InternalOptions.defaults()
    assert link_settings([RemoteBlock()], main, options).highest_version == "4.15"
    assert link_settings([RemoteBlock(allow_higher_versions=True)], main, options).highest_version is None


async def test_versions_of_the_same_protocol_are_served(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await here.agent()
        await agent.send(b'#!-agent startup {"version":"v4.14.7"}')
        assert await agent.receive() == ACK


async def test_keepalives(tmp_path: Path) -> None:
    clock = ManualClock()
    async with field(tmp_path, clock=clock) as here:
        agent = await (await here.agent(await here.enrol(groups=("default",)))).start()
        await agent.beat(agent_ip="192.0.2.77", labels=('"env":staging', '!"owner":team'), config_sum="c" * 32)
        row = await here.row(agent.key)
        assert (row["connection_status"], row["os_codename"], row["ip"]) == ("active", "Jammy Jellyfish", "192.0.2.77")
        assert (row["version"], row["merged_sum"], row["config_sum"]) == ("Wazuh v4.8.2", "x", "c" * 32)
        assert row["group_config_status"] == "synced"
        assert await here.labels(agent.key) == [
            ["env", "staging"],
            ["!owner", "team"],
            ["#_manager_hostname", "host-1"],
            ["#_agent_ip", "192.0.2.77"],
            ["#_node_name", "node01"],
            ["#_wazuh_version", "Wazuh v4.8.2"],
        ]
        await agent.beat(labels=('"env":live',))
        assert [name for name, _ in await here.labels(agent.key)] == [
            "env",
            "#_manager_hostname",
            "#_node_name",
            "#_wazuh_version",
        ]


async def test_an_unchanged_keepalive_writes_its_time(tmp_path: Path) -> None:
    clock = ManualClock()
    async with field(tmp_path, clock=clock) as here:
        agent = await (await here.agent(await here.enrol(groups=("default",)))).start()
        await agent.beat()
        before = await here.row(agent.key)
        clock.advance(10)
        await agent.beat()
        after = await here.row(agent.key)
        assert {name for name in after if after[name] != before[name]} == {"last_keepalive", "changed"}
        assert after["last_keepalive"] == before["last_keepalive"] + 10


async def test_damaged_and_padded_keepalives(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await (await here.agent()).start()
        await agent.send(keepalive() + b"Qz9(random tail")
        assert await agent.receive() == ACK
        await agent.send(keepalive().replace(b"web-01", b"w\xff"))
        assert await agent.receive() == ACK
        assert "w\ufffd" in (await here.row(agent.key))["os_uname"]
        await agent.send(keepalive() + b"\0" + b"after the end\n")
        assert await agent.receive() == ACK
        await agent.send(b"#!-no newline", b"#!-", keepalive())
        assert await agent.receive() == ACK
        counts = here.server.counts
        assert (counts.keepalive, counts.control) == (4, 7)


async def test_shutdown(tmp_path: Path) -> None:
    clock = ManualClock()
    async with field(tmp_path, clock=clock) as here:
        agent = await (await here.agent()).start()
        await agent.beat()
        clock.advance(5)
        await agent.send(SHUTDOWN)
        agent.close()
        (line,) = await here.events(1)
        assert line == b"1:[001] (web-01) any->secmon-remoted:ossec: Agent stopped: 'web-01->any'."
        row = await here.row(agent.key)
        assert (row["connection_status"], row["status_code"]) == ("disconnected", 3)
        assert row["disconnection_time"] == int(clock.now().timestamp())
        back = await (await here.agent(agent.key)).start()
        await back.beat()
        row = await here.row(agent.key)
        assert (row["connection_status"], row["disconnection_time"], row["status_code"]) == ("active", 0, 0)


async def test_shutdown_over_udp_and_return_without_startup(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await (await here.agent(stream=False)).start()
        await agent.beat()
        await agent.send(SHUTDOWN)
        await here.events(1)
        assert (await here.row(agent.key))["connection_status"] == "disconnected"
        await agent.beat()
        assert (await here.row(agent.key))["connection_status"] == "active"


async def test_a_swept_agent_comes_back_with_its_next_keepalive(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await (await here.agent()).start()
        await agent.beat()
        await here.server.states.flush()
        with here.store.write() as connection:
            assert len(sweep(connection, now=1 << 40, limit=600)) == 1
        await agent.beat()
        row = await here.row(agent.key)
        assert (row["connection_status"], row["disconnection_time"], row["status_code"]) == ("active", 0, 0)


async def test_the_end_of_a_connection_changes_no_state(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await (await here.agent()).start()
        await agent.beat()
        agent.close()
        await until(lambda: not here.server.pool.connections)
        assert (await here.row(agent.key))["connection_status"] == "active"
        assert await here.server.service.send([(1, "x")]) == [1]


async def test_a_start_resets_the_states_of_this_nodes_agents(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        keys = [await here.enrol(name) for name in ("a1", "a2", "a3")]
    async with field(tmp_path) as here:
        with here.store.write() as connection:
            apply(connection, [Startup(1, 5), UnchangedKeepalive(2, 5)], Origin("node01", "h"))
            apply(connection, [UnchangedKeepalive(3, 5)], Origin("worker1", "h"))
    async with field(tmp_path) as here:
        rows = [await here.row(key) for key in keys]
        assert [row["connection_status"] for row in rows] == ["disconnected", "disconnected", "active"]
        assert [row["status_code"] for row in rows] == [5, 5, 0]
        agent = await (await here.agent(keys[0])).start()
        await agent.beat()


async def test_the_first_keepalive_brings_the_default_group(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        here.write_merged("default", b"#default\n")
        agent = await (await here.agent()).start()
        assert (await here.row(agent.key))["group"] is None
        await agent.beat()
        await until(lambda: here.server.agents.by_number[1].delivery.group == "default")
        assert (await here.row(agent.key))["group"] == "default"
        assert await agent.receive() == b"#!-up file %b merged.mg\n" % md5(b"#default\n").hexdigest().encode()


async def test_a_call_to_an_unreachable_master_is_repeated(tmp_path: Path) -> None:
    asked: list[Mapping[int, str]] = []

    async def ask(wanted: Mapping[int, str]) -> Mapping[int, str]:
        asked.append(dict(wanted))
        if len(asked) < 3:
            raise SecmonError(3022)
        return {number: "linux" for number in wanted if number != 2}

    async with field(tmp_path, assigner=ask) as here:
        first = await (await here.agent()).start()
        second = await (await here.agent(await here.enrol("gone"))).start()
        await first.beat("a" * 32)
        await second.beat()
        await until(lambda: here.server.agents.by_number[1].delivery.group == "linux")
        await until(lambda: not here.server.agents.by_number[2].delivery.assigning)
        assert asked[0][1] == "a" * 32
        assert here.server.agents.by_number[2].delivery.group is None


async def test_removed_while_its_states_wait(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await (await here.agent()).start()
        with here.store.write() as connection:
            remove(connection, [1])
        await here.server.states.flush()
        assert await agent.closed_by_server()


async def test_other_groups_do_not_end_a_connection(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await (await here.agent()).start()
        with here.store.write() as connection:
            assign(connection, {1: ["linux", "web"]})
        await until(lambda: here.server.agents.by_number[1].delivery.group == "linux,web")
        await agent.beat()


async def test_unknown_queue_forms_are_dropped_and_unknown_queues_pass(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await (await here.agent()).start()
        await agent.send(b"x", b"1:", b"12:a:b", b"1:keepalive:x", b"Z:odd:y", b"1:a:b\0hidden", b"u:upgrade_module:{}")
        assert await here.events(3) == [
            b"Z:[001] (web-01) any->odd:y",
            b"1:[001] (web-01) any->a:b",
            b"u:[001] (web-01) any->upgrade_module:{}",
        ]
        assert here.reports == [(1, b"{}")]
        assert here.server.counts.event == 3


async def test_the_events_of_an_agent_stay_in_order_and_none_is_lost(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agents = [await (await here.agent(await here.enrol(f"a-{n}"))).start() for n in range(3)]
        for number in range(300):
            for agent in agents:
                await agent.send(b"1:f:%d" % number)
        lines = await here.events(900)
        for agent in agents:
            mine = [line for line in lines if line.startswith(f"1:[{agent.key.id}]".encode())]
            assert [int(line.rpartition(b":")[2]) for line in mine] == list(range(300))
