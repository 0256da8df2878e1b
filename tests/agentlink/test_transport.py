"""Transport: frames, pings, ids, refusals, two connections of one agent."""

import asyncio
import gc
import weakref
from pathlib import Path
from secrets import token_hex

import pytest

from secmon.agents.registry.registry import New, add, remove
from secmon.agents.wire.crypto import Cipher
from secmon.agents.wire.frames import frame
from secmon.agents.wire.keys import AgentKey
from secmon.config.remote import RemoteBlock
from tests.agentlink.field import ACK, KEY, STARTUP, Field, FieldAgent, field, keepalive
from tests.manual_clock import ManualClock
from tests.waiting import until

pytestmark = pytest.mark.anyio
EVENT = b"1:/var/log/auth.log:hello"
LINE = b"1:[001] (web-01) any->/var/log/auth.log:hello"


async def test_frames_split_at_every_byte(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await here.agent()
        loop = asyncio.get_running_loop()
        stream = frame(agent.sealed(STARTUP)) + frame(agent.sealed(EVENT))
        for cut in range(1, len(stream), 7):
            await loop.sock_sendall(agent.socket, stream[:cut])
            await loop.sock_sendall(agent.socket, stream[cut:])
            assert await agent.receive() == ACK
        for position in range(len(stream)):
            await loop.sock_sendall(agent.socket, stream[position : position + 1])
        assert await agent.receive() == ACK
        rounds = len(range(1, len(stream), 7)) + 1
        assert await here.events(rounds) == [LINE] * rounds


async def test_many_frames_in_one_segment(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await here.agent()
        texts = [STARTUP, *(b"1:file:%d" % number for number in range(500))]
        await asyncio.get_running_loop().sock_sendall(agent.socket, b"".join(frame(agent.sealed(one)) for one in texts))
        assert await agent.receive() == ACK
        assert await here.events(500) == [b"1:[001] (web-01) any->file:%d" % number for number in range(500)]


@pytest.mark.parametrize("length", [0, 65537, 0xFFFFFFFF])
async def test_lengths_that_end_the_connection(tmp_path: Path, length: int) -> None:
    async with field(tmp_path) as here:
        agent = await (await here.agent()).start()
        stream = frame(agent.sealed(EVENT)) + length.to_bytes(4, "little") + b"x" * 100
        await asyncio.get_running_loop().sock_sendall(agent.socket, stream)
        assert await agent.closed_by_server()
        assert await here.events(1) == [LINE]
        assert here.server.counts.unknown == 1


async def test_the_largest_event(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await (await here.agent()).start()
        text = b"1:big:" + bytes((n * n + 7) % 251 + 1 for n in range(65402))
        await agent.send(text)
        (line,) = await here.events(1)
        assert line == (b"1:[001] (web-01) any->" + text[2:])[:65536]


@pytest.mark.parametrize("stream", [True, False])
async def test_ping_needs_no_key(tmp_path: Path, stream: bool) -> None:
    async with field(tmp_path) as here:
        agent = await here.agent(AgentKey("999", "nobody", "any", KEY), stream=stream)
        assert await agent.ping() == b"#pong"
        assert await agent.ping() == b"#pong"
        assert here.server.counts.ping == 2
        assert here.server.counts.unknown == 0


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("cipher", Cipher)
async def test_replies_have_the_agents_cipher_and_no_id(tmp_path: Path, stream: bool, cipher: Cipher) -> None:
    async with field(tmp_path) as here:
        agent = await here.agent(stream=stream, cipher=cipher)
        await agent.send(STARTUP)
        payload = await agent.payload()
        assert payload.startswith(b":" if cipher is Cipher.BLOWFISH else b"#AES:")
        agent.cipher = Cipher.AES if cipher is Cipher.BLOWFISH else Cipher.BLOWFISH
        await agent.send(STARTUP)
        opened = await agent.opened()
        assert (opened.text, opened.cipher) == (ACK, agent.cipher)


async def refused(here: Field, agent: FieldAgent, payload: bytes) -> None:
    before = here.server.counts.unknown
    await agent.raw(payload)
    assert await agent.closed_by_server()
    assert here.server.counts.unknown == before + 1


async def test_ids_that_are_not_known(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        key = await here.enrol()
        sealed = FieldAgent(key, prefix=False).sealed(STARTUP)
        for mark in (b"!002!", b"!1!", b"!0001!"):
            await refused(here, await here.agent(key), mark + sealed)
        assert here.wanted == [("id", "002"), ("id", "1"), ("id", "0001")]
        for mark in (b"!00x!", b"!001", b"!!", b"!"):
            await refused(here, await here.agent(key), mark + sealed)
        await refused(here, await here.agent(key), b"!001!")
        assert len(here.wanted) == 3


async def test_registered_addresses(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        fixed = await here.enrol("fixed", address="127.0.0.1")
        network = await here.enrol("network", address="127.0.0.0/8")
        elsewhere = await here.enrol("elsewhere", address="192.0.2.0/24")
        for key, prefix in ((fixed, True), (fixed, False), (network, True)):
            agent = await (await here.agent(key, prefix=prefix)).start()
            agent.close()
            await until(lambda: not here.server.pool.connections)
        agent = await here.agent(elsewhere)
        await refused(here, agent, agent.sealed(STARTUP))
        assert here.wanted == [("id", elsewhere.id)]
        with here.store.write() as connection:
            remove(connection, [int(fixed.id)])
        await until(lambda: len(here.server.agents) == 2)
        agent = await here.agent(fixed, prefix=False)
        await refused(here, agent, agent.sealed(STARTUP))
        assert here.wanted[1:] == [("ip", "127.0.0.1")]


async def test_a_wrong_key_and_damage(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        key = await here.enrol()
        wrong = await here.agent(AgentKey(key.id, key.name, "any", "f" * 64))
        await refused(here, wrong, wrong.sealed(STARTUP))
        assert here.wanted == [("id", "001")]
        right = await here.agent(key)
        await refused(here, right, right.sealed(STARTUP)[:-16])
        good = await (await here.agent(key)).start()
        assert await good.ping() == b"#pong"


@pytest.mark.parametrize("stream", [True, False])
async def test_refused_datagrams_are_dropped_and_the_next_counts(tmp_path: Path, stream: bool) -> None:
    async with field(tmp_path) as here:
        agent = await here.agent(stream=False)
        for payload in (b"", b"x", b"!001!", b"!001!:12345678", b"!001!#AES:" + b"0" * 16, b"#pin"):
            await agent.raw(payload)
        await agent.start()
        assert here.server.counts.unknown == 6


async def test_a_second_connection_is_refused_while_the_first_is_alive(tmp_path: Path) -> None:
    clock = ManualClock()
    async with field(tmp_path, clock=clock) as here:
        first = await (await here.agent()).start()
        clock.advance(60)
        second = await here.agent(first.key)
        await refused(here, second, second.sealed(STARTUP))
        datagrams = await here.agent(first.key, stream=False)
        await datagrams.send(STARTUP)
        await until(lambda: here.server.counts.unknown == 2)
        await first.beat()


async def test_an_authenticated_connection_replaces_a_silent_one(tmp_path: Path) -> None:
    clock = ManualClock()
    async with field(tmp_path, clock=clock) as here:
        first = await (await here.agent()).start()
        clock.advance(61)
        wrong = await here.agent(AgentKey(first.key.id, first.key.name, "any", "f" * 64))
        await refused(here, wrong, wrong.sealed(STARTUP))
        assert await first.ping() == b"#pong"  # nothing happened to it
        second = await (await here.agent(first.key)).start()
        assert await first.closed_by_server()
        await second.beat()


async def test_overtaking_can_be_disabled(tmp_path: Path) -> None:
    clock = ManualClock()
    block = RemoteBlock(port=0, local_ip="127.0.0.1", overtake_seconds=0)
    async with field(tmp_path, clock=clock, block=block) as here:
        first = await (await here.agent()).start()
        clock.advance(100_000)
        second = await here.agent(first.key)
        await refused(here, second, second.sealed(STARTUP))


async def test_a_connection_with_events_only_gets_no_replies(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        events = await here.agent()
        await events.send(EVENT)
        await here.events(1)
        assert await here.server.service.send([(1, "#!-force_reconnect")]) == [1]
        control = await (await here.agent(events.key)).start()
        assert await here.server.service.send([(1, "#!-force_reconnect"), (7, "x")]) == [7]
        assert await control.receive() == b"#!-force_reconnect"


async def test_replies_follow_the_last_control_message(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        first = await (await here.agent(stream=False)).start()
        second = await (await here.agent(first.key, stream=False)).start()
        await first.send(EVENT)
        await here.events(1)
        assert await here.server.service.send([(1, "force_reconnect")]) == []
        assert await second.receive() == b"#!-force_reconnect"


async def test_removed_and_changed_agents_are_cut_off(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        gone, stays = await (await here.agent()).start(), await (await here.agent(await here.enrol("stays"))).start()
        talker = await here.agent(gone.key)
        reloads = here.server.counts.reloads
        with here.store.write() as connection:
            remove(connection, [1])
        assert await gone.closed_by_server()
        talker.close()
        await stays.beat()
        assert here.server.counts.reloads == reloads + 1
        back = await here.agent(gone.key)
        await refused(here, back, back.sealed(STARTUP))


async def test_a_new_key_is_found_by_polling(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        with here.store.write() as connection:
            entry = add(connection, New(name="later"), now=1).entry
        await until(lambda: entry.id in here.server.agents.by_number)
        await (await here.agent(AgentKey("001", "later", "any", entry.internal_key))).start()


async def test_connections_that_do_not_authenticate(tmp_path: Path) -> None:
    clock = ManualClock()
    async with field(tmp_path, clock=clock, unauthenticated_limit=3, unauthenticated_seconds=0.05) as here:
        known = await (await here.agent()).start()
        silent = [await here.agent(known.key) for _ in range(3)]
        await until(lambda: len(here.server.pool.connections) == 4)
        newest = await here.agent(known.key)
        assert await silent[0].closed_by_server()  # the oldest makes room
        for each in (*silent[1:], newest):
            clock.advance(1)
            assert await each.closed_by_server()
        await known.beat()
        assert here.server.counts.evicted == 3
        assert here.server.counters()["link"]["accept.connections.evicted"] == 1


async def test_the_last_connection_that_the_sweep_closed_is_freed_without_the_garbage_collector(tmp_path: Path) -> None:
    clock = ManualClock()
    async with field(tmp_path, clock=clock, unauthenticated_seconds=0.05) as here:
        gc.collect()
        gc.disable()
        try:
            agent = await here.agent()
            connections = here.server.pool.connections
            await until(lambda: connections)
            connection = weakref.ref(next(iter(connections)))
            clock.advance(1)
            assert await agent.closed_by_server()
            await until(lambda: connection() is None)
        finally:
            gc.enable()


async def test_a_peer_that_does_not_read_costs_bounded_memory(tmp_path: Path) -> None:
    async with field(tmp_path, send_limit=65536, retry_seconds=0.01) as here:
        await (await here.agent()).start()
        other = await (await here.agent(await here.enrol("other"))).start()
        texts = [(1, "#!-execd " + token_hex(10_000)) for _ in range(2000)]
        unsent = await here.server.service.send(texts)
        assert 0 < len(unsent) < 2000
        assert here.server.counts.undelivered == len(unsent)
        await other.beat()


async def test_over_ipv6(tmp_path: Path) -> None:
    block = RemoteBlock(port=0, ipv6=True, protocols=("tcp", "udp"))
    async with field(tmp_path, block=block) as here:
        six = await here.enrol("six", address="::1")
        four = await here.enrol("four", address="127.0.0.1")
        for stream in (True, False):
            port = here.tcp if stream else here.udp
            agent = await FieldAgent(six).connect(port, stream=stream, host="::1")
            await agent.start()
            await agent.send(EVENT)
            line = b"1:[001] (six) 0000|:0000|:0000|:0000|:0000|:0000|:0000|:0001->/var/log/auth.log:hello"
            assert await here.events(1) == [line]
            agent.close()
            mapped = await FieldAgent(four, prefix=False).connect(port, stream=stream)
            await mapped.start()
            mapped.close()
            await until(lambda: not here.server.pool.connections)


async def test_noise_of_all_kinds_leaves_the_others_alone(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        good = await (await here.agent()).start()
        loop = asyncio.get_running_loop()
        for noise in (b"\0", b"\xff" * 9, b"GET / HTTP/1.1\r\n\r\n", frame(b"!") * 3, frame(keepalive())):
            hostile = await here.agent(good.key)
            await loop.sock_sendall(hostile.socket, noise)
            hostile.close()
        await good.beat()
        await until(lambda: len(here.server.pool.connections) == 1)


async def test_a_counter_that_went_back_is_reported_and_accepted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with field(tmp_path) as here:
        agent = await here.agent()
        recorded = [agent.sealed(STARTUP), agent.sealed(b"1:f:recorded")]
        for payload in recorded:
            await agent.raw(payload)
        assert await here.events(1) == [b"1:[001] (web-01) any->f:recorded"]
        agent.socket.close()
        await until(lambda: not here.server.pool.connections)
        assert here.server.counters()["link"]["counters_back"] == 0
        later = await here.agent(agent.key)
        later.counter = agent.counter  # as agents do that were restarted
        await later.start()
        later.socket.close()
        await until(lambda: not here.server.pool.connections)
        assert here.server.counters()["link"]["counters_back"] == 0
        restored = await here.agent(agent.key)
        for payload in recorded:
            await restored.raw(payload)
        await here.events(1)
        assert here.server.counters()["link"]["counters_back"] == 1
        assert "the message counter of agent 001 went back from 0:3 to 0:1" in caplog.text


async def test_replays_that_are_accepted_without_a_report(tmp_path: Path) -> None:
    """The limits that docs/enrol-agents.md states: datagrams, and counters of before the last start."""
    async with field(tmp_path) as here:
        agent = await here.agent(stream=False)
        recorded = agent.sealed(b"1:f:recorded")
        await agent.raw(recorded)
        await here.events(1)
        await agent.raw(recorded)
        await here.events(1)
        assert here.server.counters()["link"]["counters_back"] == 0
    async with field(tmp_path) as here:
        stranger = await here.agent(agent.key)
        await stranger.raw(recorded)
        assert await here.events(1) == [b"1:[001] (web-01) any->f:recorded"]
        assert here.server.counters()["link"]["counters_back"] == 0


async def test_a_replay_is_refused_while_the_agent_is_connected(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await here.agent()
        recorded = agent.sealed(STARTUP)
        await agent.raw(recorded)
        assert await agent.receive() == ACK
        stranger = await here.agent(agent.key)
        await stranger.raw(recorded)
        assert await stranger.closed_by_server()
        await agent.beat()
        assert here.server.counts.startup == 1
