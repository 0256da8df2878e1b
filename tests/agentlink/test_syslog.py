"""Syslog input: which senders, which lines, which events."""

import asyncio
import socket
from pathlib import Path

import pytest

from secmon.config.remote import RemoteBlock
from tests.agentlink.field import Field, field
from tests.waiting import until

pytestmark = pytest.mark.anyio


def block(*, protocols: tuple[str, ...] = ("tcp", "udp"), denied: tuple[str, ...] = ()) -> RemoteBlock:
    return RemoteBlock(
        secure=False, port=0, local_ip="127.0.0.1", protocols=protocols, allowed=("127.0.0.0/8",), denied=denied
    )


def ports(here: Field) -> tuple[int, int]:
    """TCP and UDP."""
    tcp, udp = here.server._ports.tcp[1][1], here.server._ports.udp[1][1]
    return tcp.getsockname()[1], udp.getsockname()[1]


async def test_lines_over_tcp(tmp_path: Path) -> None:
    async with field(tmp_path, blocks=(block(),)) as here:
        reader, writer = await asyncio.open_connection("127.0.0.1", ports(here)[0])
        for piece in (b"<13>Mar  4 10:20:30 fw a", b": x\r\n<134>b\n\n", b"c|d", b"\n", b"unfinished"):
            writer.write(piece)
            await writer.drain()
        writer.close()
        assert await here.events(4) == [
            b"2:127.0.0.1:Mar  4 10:20:30 fw a: x",
            b"2:127.0.0.1:b",
            b"2:127.0.0.1:c|d",
            b"2:127.0.0.1:unfinished",
        ]
        assert await reader.read() == b""
        await until(lambda: not here.server.syslog.connections)
        assert here.server.counts.syslog == 4


async def test_a_line_without_end_is_cut(tmp_path: Path) -> None:
    async with field(tmp_path, blocks=(block(),)) as here:
        _, writer = await asyncio.open_connection("127.0.0.1", ports(here)[0])
        writer.write(b"x" * 200_000)
        await writer.drain()
        lines = await here.events(3)
        assert {len(line) for line in lines} == {len(b"2:127.0.0.1:") + 65000}
        writer.close()
        await until(lambda: not here.server.syslog.connections)


async def test_datagrams(tmp_path: Path) -> None:
    async with field(tmp_path, blocks=(block(),)) as here:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for data in (b"<13>one\n", b"two\nlines\n", b"", b"<broken"):
                sender.sendto(data, ("127.0.0.1", ports(here)[1]))
        assert await here.events(3) == [b"2:127.0.0.1:one", b"2:127.0.0.1:two\nlines", b"2:127.0.0.1:<broken"]


async def test_senders_that_are_denied(tmp_path: Path) -> None:
    async with field(tmp_path, blocks=(block(denied=("127.0.0.1",)),)) as here:
        tcp, udp = ports(here)
        reader, writer = await asyncio.open_connection("127.0.0.1", tcp)
        assert await reader.read() == b""
        writer.close()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"x", ("127.0.0.1", udp))
        await until(lambda: here.server.counts.unknown == 2)
        assert here.server.counts.syslog == 0
