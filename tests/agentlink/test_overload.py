"""Overload of the link: effects on the flooding agents, on the others, and on the counters."""

import asyncio
import logging
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from secmon.agentlink.connection_pool import MAX_PER_AGENT, ConnectionPool
from secmon.agentlink.counters import LinkCounts
from secmon.agentlink.event_losses import EventLosses
from secmon.agentlink.tcp import Connection
from secmon.agents.wire.frames import frame
from secmon.config.remote import RemoteBlock
from secmon.journal.journal import JournalReader
from tests.agentlink.field import ACK, SHUTDOWN, STARTUP, Field, FieldAgent, field, keepalive
from tests.waiting import until

pytestmark = pytest.mark.anyio


def narrow(here: Field) -> None:
    """Let the system buffer little of what connections made from now on bring."""
    here.server._ports.tcp[0][1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)


async def test_a_slow_reader_stops_the_agents_and_no_event_is_lost(tmp_path: Path) -> None:
    """Every event that TCP took arrives; datagrams are dropped and counted."""
    block = RemoteBlock(port=0, local_ip="127.0.0.1", protocols=("tcp", "udp"), queue_size=50)
    async with field(tmp_path, block=block, events_limit=400_000) as here:
        agent = await (await here.agent()).start()
        udp = await here.agent(await here.enrol("datagrams"), stream=False)
        total = 6000

        async def talk() -> None:
            for number in range(total):
                await agent.send(b"1:f:%06d " % number + b"x" * 200)

        talking = asyncio.create_task(talk())
        await until(lambda: here.server.events.full and here.server.journal.full)
        while here.server.counts.discarded < 5:
            await udp.send(STARTUP)
            await asyncio.sleep(0)
        assert here.server.events.usage < 1500  # what few reads bring
        assert here.server.counts.event < total
        seen: list[bytes] = []
        while len(seen) < total:
            seen += await here.events(1)
        await talking
        assert [int(line.split(b":")[2][:6]) for line in seen] == list(range(total))
        await agent.beat()
        assert here.server.journal.lost == 0


async def test_a_full_journal_drops_events_of_floods_and_keeps_all_connections(tmp_path: Path) -> None:
    """A reader that stops for long: all agents stay connected, are answered and reached; then all continues."""
    block = RemoteBlock(port=0, local_ip="127.0.0.1", protocols=("tcp",), queue_size=600)
    async with field(tmp_path, block=block, events_limit=400_000, hold_seconds=0.2) as here:
        narrow(here)
        server = here.server
        names = [f"agent-{number}" for number in range(12)]
        agents = [await (await here.agent(key)).start() for key in await here.enrol_all(*names, groups=("default",))]
        floods, calm = agents[:2], agents[2:]
        loop = asyncio.get_running_loop()
        flooding = True

        async def pour(agent: FieldAgent) -> None:
            agent.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
            while flooding:
                burst = b"".join(frame(agent.sealed(b"1:flood:" + b"x" * 400)) for _ in range(100))
                await loop.sock_sendall(agent.socket, burst + frame(agent.sealed(keepalive())))

        pouring = [asyncio.create_task(pour(agent)) for agent in floods]
        await until(lambda: server.journal.full and server.pool.held == len(floods))
        assert server.counts.dropped == 0
        for agent in calm:  # within their share: taken, not held
            await agent.send(b"1:calm:%b" % agent.key.id.encode())
            await agent.beat()
        await until(lambda: server.counts.dropped)
        for agent in floods:  # behind many events, and answered again and again
            for _ in range(3):
                assert await agent.receive() == ACK
        late = await (await here.agent(await here.enrol("late", groups=("default",)))).start()
        await late.send(b"1:calm:%b" % late.key.id.encode())
        await late.beat()
        assert await server.service.send([(int(agent.key.id), "restart") for agent in (*floods, late)]) == []
        assert await late.receive() == b"#!-restart"
        assert server.counts.evicted == 0
        assert len(server.pool.connections) == 13
        assert server.counts.discarded == server.counts.dropped == server.counters()["link"]["dropped"]
        flooding = False
        await asyncio.gather(*pouring)
        seen: list[bytes] = []
        while len(seen) < server.counts.event or server.events.half_full or server.pool.held:
            seen += [event for one in here.reader.read() for event in one.events]
            here.reader.commit(here.reader.next)
            await asyncio.sleep(0.01)
        for agent in (*calm, late):
            assert sum(b"->calm:" + agent.key.id.encode() in line for line in seen) == 1
        dropped = server.counts.dropped
        await calm[0].send(*(b"1:again:%d" % number for number in range(200)))
        again = await here.events(200)
        assert [line.rpartition(b":")[2] for line in again] == [b"%d" % number for number in range(200)]
        assert server.counts.dropped == dropped
        assert server.journal.lost == 0


async def test_a_reconnecting_agent_does_not_wait_for_the_end_of_its_hold(tmp_path: Path) -> None:
    """What its first connection still brings is not lost, and changes nothing of its state."""
    block = RemoteBlock(port=0, local_ip="127.0.0.1", protocols=("tcp",), queue_size=50)
    async with field(tmp_path, block=block, events_limit=400_000, hold_seconds=600) as here:
        narrow(here)
        agent = await (await here.agent()).start()
        agent.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        total = 0

        async def pour() -> None:
            nonlocal total
            while True:
                await agent.send(b"1:f:%06d " % total + b"x" * 400)
                total += 1
                if total % 50 == 0:
                    await agent.send(SHUTDOWN)

        pouring = asyncio.create_task(pour())
        await until(lambda: here.server.pool.held and here.server.journal.full)
        pouring.cancel()
        await asyncio.gather(pouring, return_exceptions=True)
        agent.close()
        again = await here.agent(agent.key)
        again.counter = agent.counter
        await again.start()
        await again.beat()
        assert len(here.server.pool.connections) == 2
        await until(lambda: here.server.counts.keepalive == 1)
        stopped = here.server.counts.shutdown
        seen: list[bytes] = []
        while len(seen) < total:
            seen += [line for line in await here.events(1) if b"->f:" in line]
        assert [int(line.rpartition(b":")[2][:6]) for line in seen] == list(range(total))
        await until(lambda: len(here.server.pool.connections) == 1)
        assert here.server.counts.dequeued_after
        assert here.server.counts.shutdown == stopped
        await again.beat()
        assert (await here.row(agent.key))["connection_status"] == "active"


def test_losses_are_reported_with_those_who_lost_most(caplog: pytest.LogCaptureFixture) -> None:
    counts = LinkCounts(0)
    losses = EventLosses(logging.getLogger("losses"), counts)
    for number in range(1, 8):
        for _ in range(number):
            losses.add(f"{number:03d}")
    losses.report()
    losses.report()
    assert [record.getMessage() for record in caplog.records] == [
        "28 events of 7 agents were dropped because the analysis is behind; "
        "most of agents 007 (7), 006 (6), 005 (5), 004 (4), 003 (3)"
    ]
    assert counts.dropped == 28


async def test_a_flood_does_not_delay_other_agents(tmp_path: Path) -> None:
    async with field(tmp_path, read_chunk=1024) as here:
        floods = [await (await here.agent(key)).start() for key in await here.enrol_all("f1", "f2", "f3")]
        calm = await (await here.agent(await here.enrol("calm"))).start()
        loop = asyncio.get_running_loop()

        async def pour(number: int) -> None:
            agent = floods[number]
            burst = b"".join(frame(agent.sealed(b"1:f:" + b"%d" % each)) for each in range(2000))
            for _ in range(3):
                await loop.sock_sendall(agent.socket, burst)

        pouring = [asyncio.create_task(pour(number)) for number in range(3)]
        await until(lambda: here.server.counts.event)
        await calm.beat()
        assert here.server.counts.event < 18000
        await asyncio.gather(*pouring)
        await until(lambda: here.server.counts.event == 18000)
        for agent in floods:
            await agent.beat()


async def test_busy_connections_share_a_turn(tmp_path: Path) -> None:
    async with field(tmp_path, read_chunk=2048) as here:
        pool: ConnectionPool = here.server.pool
        connections = [Connection(pool, send_limit=65536) for _ in range(100)]
        assert pool.allowance(connections[0]) == 65536
        for connection in connections:
            pool.yield_turn(connection)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert pool.allowance(connections[0]) == (1 << 20) // 100
        for _ in range(20):
            for connection in connections:
                pool.yield_turn(connection)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert pool.allowance(connections[0]) == 2048


async def test_replies_do_not_wait_for_the_store(tmp_path: Path) -> None:
    """While another process holds the store's lock, agents are answered; their states follow."""
    async with field(tmp_path) as here:
        agent = await (await here.agent(await here.enrol(groups=("default",)))).start()
        with here.store.write():
            await asyncio.sleep(0.6)  # a write of states begins, and waits
            for number in range(20):
                await agent.beat(labels=(f'"n":{number}',))
        assert (await here.row(agent.key))["connection_status"] == "active"


async def test_a_stop_writes_all_accepted_events(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await (await here.agent(await here.enrol(groups=("default",)))).start()
        for number in range(200):
            await agent.send(b"1:f:%d" % number)
        await agent.send(keepalive())
        assert await agent.receive() == ACK
    reader = JournalReader(here.paths.events, "test")
    assert sum(len(one.events) for one in reader.read()) == 200
    reader.close()
    with here.store.read() as connection:
        assert connection.exec_driver_sql("select connection_status from agents").scalar_one() == "active"
    here.store.close()


async def test_events_before_a_death_are_read_after_the_next_start(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await (await here.agent()).start()
        await agent.send(b"1:f:before")
        assert await here.events(1) == [b"1:[001] (web-01) any->f:before"]
        segment = next(here.paths.events.glob("*.events"))
    with segment.open("ab") as file:
        file.write(b"SMJ1 torn")
    async with field(tmp_path) as here:
        again = await (await here.agent(agent.key)).start()
        await again.send(b"1:f:after")
        assert await here.events(1) == [b"1:[001] (web-01) any->f:after"]


async def test_connections_of_one_agent_are_bounded(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        control = await (await here.agent()).start()
        key = await here.enrol("talker")
        talkers = [await here.agent(key) for _ in range(MAX_PER_AGENT + 2)]
        for number, agent in enumerate(talkers):
            await agent.send(b"1:f:%d" % number)
            await here.events(1)
        assert await talkers[0].closed_by_server()
        assert await talkers[1].closed_by_server()
        assert len(here.server.pool.connections) == 1 + MAX_PER_AGENT
        await control.beat()
        for number, agent in enumerate(talkers[2:]):
            await agent.send(b"1:f:%d" % number)
        await here.events(MAX_PER_AGENT)


async def test_many_updates_of_one_agent_are_written_once(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await (await here.agent(await here.enrol(groups=("default",)))).start()
        await here.server.states.flush()
        with here.store.write():
            for number in range(300):
                await agent.beat(labels=(f'"n":{number}',))
                await agent.start()
                await agent.send(b"#!-agent startup {}")
                await agent.receive()
                await agent.start()
            waiting = here.server.states._waiting
            assert len(waiting) <= 1
            assert sum(map(len, waiting.values())) <= 8
        await agent.beat(labels=('"n":last',))
        row = await here.row(agent.key)
        assert (row["connection_status"], row["status_code"]) == ("active", 0)
        assert ["n", "last"] in await here.labels(agent.key)


async def test_states_are_kept_while_the_store_cannot_be_written(tmp_path: Path) -> None:
    async with field(tmp_path) as here:
        agent = await (await here.agent(await here.enrol(groups=("default",)))).start()
        await here.server.states.flush()
        with here.store.write() as connection:
            connection.exec_driver_sql("alter table agents rename to away")
        await agent.beat()
        await here.server.states.flush()
        await agent.beat()
        with here.store.write() as connection:
            connection.exec_driver_sql("alter table away rename to agents")
        assert (await here.row(agent.key))["connection_status"] == "active"


@given(
    st.lists(st.binary(max_size=80), max_size=40), st.sampled_from([b"", b"!001!", b"!001!#AES:", b"!001!:", b"#AES:"])
)
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_bytes_of_strangers_do_not_disturb_an_agent(
    tmp_path_factory: pytest.TempPathFactory, noise: list[bytes], head: bytes
) -> None:
    async def disturb() -> None:
        async with field(tmp_path_factory.mktemp("link")) as here:
            agent = await (await here.agent()).start()
            hostile = [await here.agent(agent.key), await here.agent(agent.key, stream=False)]
            for data in noise:
                for each in hostile:
                    with suppress(ConnectionError):
                        await each.raw(head + data)
                with suppress(ConnectionError):
                    await asyncio.get_running_loop().sock_sendall(hostile[0].socket, data)
            await agent.beat()
            assert here.server.counts.event == 0
            assert here.server.counts.control == 2

    asyncio.run(disturb())
