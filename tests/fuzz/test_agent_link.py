"""Damaged messages at the real link, over TCP and UDP, while other agents are connected, which are not affected."""

import asyncio
import socket
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from secmon.agents.wire.frames import PING, PONG, frame
from secmon.simulator import Fleet, Options, Server, Timing
from tests.agentlink.field import field
from tests.fuzz.effort import EXAMPLES
from tests.fuzz.test_agent_frames import SEED
from tests.simulator.mutate import Mutator
from tests.simulator.test_real_link import enrol
from tests.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.anyio

STREAMS = 30_000 if EXAMPLES else 300
DATAGRAMS = 700_000 if EXAMPLES else 2_000
FRAMES = 10
"""On a connection at most; the link closes it at the first that it refuses."""
HOST = "127.0.0.1"
PATIENT = Timing(notify=1.0, silence=60.0, ack_wait=30.0)


async def test_damaged_streams(tmp_path: Path) -> None:
    async with field(tmp_path) as link:
        keys = await enrol(link, 11)
        mutator = Mutator(keys[10], Random(SEED))
        async with Fleet([Server(HOST, link.tcp)], keys[:10], options=Options(timing=PATIENT)) as fleet:
            await fleet.until(lambda c: c.connected == 10)
            for number in range(STREAMS):
                await one_stream(link.tcp, b"".join(mutator.frame() for _ in range(FRAMES)))
                assert fleet.counters.losses == 0, (SEED, number)
            await fleet.until(lambda c: c.connected == 10)
            acked = fleet.counters.acked
            await fleet.until(lambda c: c.acked >= acked + 20)
            assert fleet.counters.losses == 0
            assert link.server.counts.unknown >= STREAMS // 2
        assert len(link.server.pool.connections) <= 10


async def one_stream(port: int, data: bytes) -> None:
    """Send ``data`` and see the connection through to its end."""
    reader, writer = await asyncio.open_connection(HOST, port)
    with suppress(ConnectionError):
        writer.write(data)
        writer.write_eof()
        await reader.read()
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def test_damaged_datagrams(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    async with field(tmp_path) as link:
        keys = await enrol(link, 11)
        mutator = Mutator(keys[10], Random(SEED))
        server = Server(HOST, link.udp, transport="udp")
        async with Fleet([server], keys[:10], options=Options(timing=PATIENT)) as fleet:
            await fleet.until(lambda c: c.connected == 10)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.connect((HOST, link.udp))
                for number in range(DATAGRAMS):
                    await loop.sock_sendto(sender, mutator.payload(), (HOST, link.udp))
                    if number % 50 == 49:
                        await pong(sender)  # lets the link keep up: what the kernel drops is no test
            acked = fleet.counters.acked
            await fleet.until(lambda c: c.acked >= acked + 20)
            assert (fleet.counters.losses, fleet.counters.connected) == (0, 10)
            assert link.server.counts.unknown > DATAGRAMS // 3


async def pong(sender: socket.socket) -> None:
    """Wait until the link has read everything so far."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendto(sender, PING, sender.getpeername())
    async with asyncio.timeout(LIMIT_SECONDS):
        while await loop.sock_recv(sender, 65536) != PONG:
            pass  # an answer to a message that was not so damaged


async def test_frames_of_any_cut(tmp_path: Path) -> None:
    """A ping, sent byte by byte between other connections' halves of frames, is answered."""
    async with field(tmp_path) as link:
        halves = [await asyncio.open_connection(HOST, link.tcp) for _ in range(20)]
        for number, (_, writer) in enumerate(halves):
            writer.write(frame(b"x" * 100)[:number])
        reader, writer = await asyncio.open_connection(HOST, link.tcp)
        for byte in frame(PING):
            writer.write(bytes([byte]))
            await writer.drain()
        assert await reader.readexactly(9) == frame(PONG)
        for _, each in [*halves, (reader, writer)]:
            each.close()
