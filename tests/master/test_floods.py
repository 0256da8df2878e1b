"""Floods of connections to both ports of the cluster link."""

import asyncio
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from secmon.cluster.rpc import relay
from secmon.master import enrolment_service
from tests.cluster_kit import cluster
from tests.event_loops import ASYNCIO, UVLOOP, Backend
from tests.slowlink import Quality, SlowLink
from tests.waiting import until

pytestmark = pytest.mark.anyio

RAW = 700


@pytest.fixture(params=[ASYNCIO, UVLOOP], ids=["asyncio", "uvloop"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    """Both loops: their transports differ, and daemons run on uvloop."""
    return request.param  # type: ignore[no-any-return]


@contextmanager
def _raw(port: int, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    """Connections that say ``sent`` and nothing else."""
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
            made.append(one)
        if sent:
            for one in made:
                one.setblocking(True)
                one.sendall(sent)
        yield made


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["silent", "half a handshake"])
@pytest.mark.parametrize("attacked", ["cluster", "enrolment"])
async def test_a_flood_of_connections_takes_few_descriptors_and_nodes_can_join(
    tmp_path: Path, attacked: str, sent: bytes
) -> None:
    async with cluster(tmp_path, "early") as kit:
        master, before = kit.master, _descriptors()
        port = master.port if attacked == "cluster" else master.enrol_port
        counts, name = master.counters, "cluster.peers" if attacked == "cluster" else "cluster.enrolment"
        limits = relay.NODE_LIMITS if attacked == "cluster" else enrolment_service.LIMITS
        with _raw(port, RAW, b"") as flood:
            await until(lambda: counts.snapshot().get(f"{name}.connections.evicted", 0) > 0)
            for one in flood:
                if sent:
                    with _ignored():
                        one.send(sent)
            await kit.start_worker("late")
            await kit.joined("early", "late")
            assert counts.snapshot()[f"{name}.connections.open"] <= limits.total
            assert _descriptors() - before <= RAW + relay.DESCRIPTORS * limits.total + 64
        await until(lambda: counts.snapshot()[f"{name}.connections.open"] <= 4)


@contextmanager
def _ignored() -> Iterator[None]:
    try:
        yield
    except OSError:
        pass


async def test_a_node_can_enrol_despite_a_flood_from_its_own_address(tmp_path: Path) -> None:
    """80 connections a second, each second one with half a handshake, over all of the node's round trips of 0.2 s."""
    async with cluster(tmp_path) as kit:
        link = await SlowLink(kit.master.enrol_port, Quality(delay=0.1)).start()
        flood = asyncio.create_task(_flood(kit.master.enrol_port))
        try:
            await until(lambda: kit.master.counters.snapshot().get("cluster.enrolment.connections.evicted", 0) > 0)
            await kit.start_worker("alpha", enrol_port=link.port)
            await kit.joined("alpha")
            assert not flood.done()
        finally:
            flood.cancel()
            await asyncio.wait([flood])
            await link.stop()


async def _flood(port: int) -> None:
    with ExitStack() as stack:
        while True:
            for sent in (b"", b"\x16\x03\x01\x02\x00\x01"):
                (one,) = stack.enter_context(_raw(port, 1))
                await asyncio.sleep(1 / 80)
                with _ignored():
                    one.send(sent)


async def test_nodes_can_enrol_despite_half_sent_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS, HTTP/2 and the head of a call, but never its message. Nodes do not wait until such connections are ended."""
    monkeypatch.setattr(enrolment_service, "CONNECTION_SECONDS", 3600.0)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    async with cluster(tmp_path) as kit:
        streams = [
            await asyncio.open_connection("127.0.0.1", kit.master.enrol_port, ssl=context)
            for _ in range(enrolment_service.LIMITS.per_address + 8)
        ]
        for _, writer in streams:
            writer.write(_half_call())
        await kit.start_worker("alpha")
        await kit.joined("alpha")
        for _, writer in streams:
            writer.transport.abort()
        await until(lambda: not kit.master.counters.snapshot()["cluster.enrolment.connections.open"])


def _half_call() -> bytes:
    """The preface, settings, and HEADERS of ``Enrol`` that do not end the stream."""
    fields = [
        (b":method", b"POST"), (b":scheme", b"https"), (b":path", b"/secmon.v1.Enrolment/Enrol"), (b":authority", b"m"),
        (b"te", b"trailers"), (b"content-type", b"application/grpc"),
    ]  # fmt: skip
    block = b"".join(bytes((0, len(name))) + name + bytes((len(value),)) + value for name, value in fields)
    settings = b"\0\0\0\x04\0" + bytes(4)
    headers = len(block).to_bytes(3) + b"\x01\x04" + (1).to_bytes(4) + block
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + headers


async def test_the_master_sees_the_addresses_of_nodes(tmp_path: Path) -> None:
    async with cluster(tmp_path, "alpha") as kit:
        session = kit.master.sessions.get("alpha")
        assert session is not None
        assert session.ip == "127.0.0.1"


async def test_connections_beyond_their_time_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "FIRST_BYTES_SECONDS", 0.1)
    monkeypatch.setattr(enrolment_service, "CONNECTION_SECONDS", 0.2)
    async with cluster(tmp_path) as kit:
        for sent in (b"", b"\x16\x03\x01\x02\x00\x01"):
            with _raw(kit.master.enrol_port, 1, sent) as (one,):
                one.setblocking(False)
                assert await asyncio.get_running_loop().sock_recv(one, 10) == b""
