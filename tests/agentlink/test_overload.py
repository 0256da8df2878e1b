"""Too much of everything: who pays, and what is counted."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from secmon.agentlink.floor import MOST_OF_AN_AGENT, ConnectionFloor
from secmon.agentlink.tcp import Connection
from secmon.common.agentwire.frames import frame
from secmon.common.config.remote import RemoteBlock
from secmon.common.events.journal import JournalReader
from tests.agentlink.field import ACK, STARTUP, field, keepalive
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def test_a_reader_that_is_behind_stops_the_agents_and_nothing_is_lost(tmp_path: Path) -> None:
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


async def test_a_flood_leaves_others_their_turn(tmp_path: Path) -> None:
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


async def test_a_turn_is_shared_by_those_who_have_much_to_say(tmp_path: Path) -> None:
    async with field(tmp_path, read_chunk=2048) as here:
        floor: ConnectionFloor = here.server.floor
        assert floor.allowance() == 65536
        connections = [Connection(floor, send_limit=65536) for _ in range(100)]
        for connection in connections:
            floor.rest(connection)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert floor.allowance() == (1 << 20) // 100
        for _ in range(20):
            for connection in connections:
                floor.rest(connection)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert floor.allowance() == 2048


async def test_acknowledgements_do_not_wait_for_the_store(tmp_path: Path) -> None:
    """While somebody holds the store's lock, agents are answered; their states follow."""
    async with field(tmp_path) as here:
        agent = await (await here.agent(await here.enrol(groups=("default",)))).start()
        with here.store.write():
            await asyncio.sleep(0.6)  # a write of states begins, and waits
            for number in range(20):
                await agent.beat(labels=(f'"n":{number}',))
        assert (await here.row(agent.key))["connection_status"] == "active"


async def test_a_stop_writes_what_was_taken(tmp_path: Path) -> None:
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


async def test_what_a_death_leaves_is_read_after_the_next_start(tmp_path: Path) -> None:
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
        talkers = [await here.agent(key) for _ in range(MOST_OF_AN_AGENT + 2)]
        for number, agent in enumerate(talkers):
            await agent.send(b"1:f:%d" % number)
            await here.events(1)
        assert await talkers[0].closed_by_server()
        assert await talkers[1].closed_by_server()
        assert len(here.server.floor.connections) == 1 + MOST_OF_AN_AGENT
        await control.beat()
        for number, agent in enumerate(talkers[2:]):
            await agent.send(b"1:f:%d" % number)
        await here.events(MOST_OF_AN_AGENT)


async def test_an_agent_that_says_much_of_itself_is_written_once(tmp_path: Path) -> None:
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


async def test_states_wait_for_a_store_that_cannot_be_written(tmp_path: Path) -> None:
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
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_of_a_stranger_disturb_an_agent(
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
