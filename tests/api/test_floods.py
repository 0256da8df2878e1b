"""Clients that only want to take up room: slow and silent in all phases of a connection, on real sockets."""

import asyncio
import contextlib
import gc
import os
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace

import pytest

from secmon.api.protocol import BoundedProtocol, ConnectionLimits
from secmon.common.accept.limiter import AcceptLimits
from secmon.common.clock import SystemClock
from secmon.config.api import Https
from tests.api.conftest import Serve, Toy
from tests.api.toys import api_config
from tests.event_loops import ASYNCIO, UVLOOP, Backend
from tests.waiting import until

pytestmark = pytest.mark.anyio

FEW = AcceptLimits(total=40, reserved=10, per_address=30)
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The beginning of a TLS handshake."""


@pytest.fixture(params=[ASYNCIO, UVLOOP], ids=["asyncio", "uvloop"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    """Both loops: their transports differ."""
    return request.param  # type: ignore[no-any-return]


@contextlib.contextmanager
def raw(port: int, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(count)]
        for one in made:
            with contextlib.suppress(OSError):
                one.send(sent)
            one.setblocking(False)
        yield made


async def ask(toy: Toy, *, tls: bool) -> bytes:
    """A connection of its own, and a request."""
    context = ssl._create_unverified_context() if tls else None
    reader, writer = await asyncio.open_connection("127.0.0.1", toy.server.port, ssl=context)
    writer.write(b"GET /items HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize("sent", [b"", HELLO], ids=["silent", "half a handshake"])
async def test_connections_count_before_tls(serve: Serve, sent: bytes) -> None:
    config = api_config(https=Https())
    async with serve(config, limits=ConnectionLimits(accept=FEW)) as toy:
        before = len(os.listdir("/proc/self/fd"))
        with raw(toy.server.port, 300, sent):
            await until(lambda: toy.counter("api.connections.evicted") >= 270)
            assert toy.counter("api.connections.open") == 30
            await until(lambda: len(os.listdir("/proc/self/fd")) - before <= 300 + 40)
            assert (await ask(toy, tls=True)).startswith(b"HTTP/1.1 401")
            # Who has a token is known, and finds room that strangers cannot have.
            await toy.log_in()
            assert (await toy.client.get("/items")).status_code == 200
        await until(lambda: toy.counter("api.connections.open") <= 1)


async def test_slow_handshakes_are_ended(serve: Serve) -> None:
    limits = ConnectionLimits(handshake_seconds=0.2)
    async with serve(api_config(https=Https()), limits=limits) as toy:
        for sent in (b"", HELLO):
            with raw(toy.server.port, 1, sent) as (one,), contextlib.suppress(ConnectionError):
                assert await asyncio.get_running_loop().sock_recv(one, 10) == b""
        await until(lambda: toy.counter("api.handshakes.failed") == 2)
        await until(lambda: toy.counter("api.connections.open") == 0)


async def test_requests_that_are_never_finished_do_not_keep_others_out(serve: Serve) -> None:
    """Headers without an end, bodies without an end: the flood of one address loses its own places."""
    halves = (
        b"GET /items HTTP/1.1\r\nX: ",
        b"PUT /items HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
        b"PUT /items HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    )
    for half in halves:
        async with serve(limits=ConnectionLimits(accept=replace_accept(per_address=20))) as toy:
            with raw(toy.server.port, 30, half):
                await until(lambda toy=toy: toy.counter("api.connections.open") >= 20)  # type: ignore[misc]
                async with other_address(toy) as answer:
                    assert answer.startswith(b"HTTP/1.1 401")


def replace_accept(**changes: int) -> AcceptLimits:
    return AcceptLimits(**({"total": 20, "reserved": 0, "per_address": 20} | changes))


@contextlib.asynccontextmanager
async def other_address(toy: Toy):  # type: ignore[no-untyped-def]
    """The answer to a client of another address."""
    reader, writer = await asyncio.open_connection("127.0.0.1", toy.server.port, local_addr=("127.0.0.2", 0))
    writer.write(b"GET /items HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    yield await reader.read()
    writer.close()


async def test_bodies_of_strangers_leave_room_for_who_has_a_token(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a body each from many addresses; then clients with a body, from yet another address."""
    monkeypatch.setattr("secmon.api.dispatch.BODY_MEMORY_BYTES", 0)
    head = b"PUT /items HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
    body = b'{"name": "%b", "count": 1}' % (b"x" * 9000)
    async with (
        serve(api_config(max_upload_size=10_000), clock=SystemClock()) as toy,
        contextlib.AsyncExitStack() as stack,
    ):

        async def send(address: str, data: bytes) -> asyncio.StreamReader:
            reader, writer = await asyncio.open_connection("127.0.0.1", toy.server.port, local_addr=(address, 0))
            stack.callback(writer.close)
            writer.write(data)
            return reader

        token = await toy.token()
        assert (await toy.client.get("/items", headers={"Authorization": f"Bearer {token}"})).status_code == 200
        for number in range(2, 8):
            await send(f"127.0.0.{number}", head + b"Content-Length: 9500\r\n\r\n" + body)
        whole = b"Content-Length: %d\r\n\r\n" % len(body) + body
        await until(lambda: toy.server._dispatcher._bodies.held > 18_000)  # type: ignore[union-attr]
        stranger = await send("127.0.0.8", head + whole)
        assert (await stranger.read()).startswith(b"HTTP/1.1 503")
        known = await send("127.0.0.9", head + b"Authorization: Bearer " + token.encode() + b"\r\n" + whole)
        assert (await known.read()).startswith(b"HTTP/1.1 200")


async def test_a_body_has_no_credit_for_what_came_early(serve: Serve) -> None:
    """Otherwise a burst would allow for hours of bytes that come one by one."""
    async with serve(body_seconds=0.3) as toy:
        reader, writer = await asyncio.open_connection("127.0.0.1", toy.server.port)
        writer.write(b"PUT /items HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 1_000_000)

        async def dribble() -> None:
            with contextlib.suppress(ConnectionError):
                while not writer.is_closing():
                    writer.write(b"x")
                    await asyncio.sleep(0.02)

        dribbling = asyncio.create_task(dribble())
        async with asyncio.timeout(30):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 408")
        dribbling.cancel()
        writer.transport.abort()


async def test_a_client_that_takes_an_answer_byte_by_byte_is_dropped(serve: Serve) -> None:
    limits = replace(ConnectionLimits(), idle_seconds=0.4)
    async with serve(limits=limits) as toy:
        token = await toy.token()
        body = b'{"name": "%b", "count": 20000}' % (b"x" * 200)
        client = socket.create_connection(("127.0.0.1", toy.server.port))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(
            b"PUT /items HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: Bearer "
            + token.encode()
            + b"\r\nContent-Length: %d\r\n\r\n" % len(body)
            + body
        )
        client.setblocking(False)

        async def dribble() -> None:
            while not toy.counter("api.connections.timed_out"):
                with contextlib.suppress(OSError):
                    client.recv(20)
                await asyncio.sleep(0.02)

        async with asyncio.timeout(30):
            await dribble()
        client.close()


def protocols() -> list[BoundedProtocol]:
    """Of all connections that are not freed."""
    return [one for one in gc.get_objects() if isinstance(one, BoundedProtocol)]


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("how", ["answered", "in the body", "in the login"])
async def test_what_a_client_leaves_is_freed_without_the_garbage_collector(serve: Serve, how: str, tls: bool) -> None:
    """A flood of abandoned requests would otherwise take a hundred kilobytes each until the collector comes."""
    body = b"x" * 100_000
    request = b"POST /security/user/authenticate HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YTpi\r\n"
    request += b"Content-Length: %d\r\n\r\n" % len(body) + (body[:50_000] if how == "in the body" else body)
    async with serve(api_config(https=Https(enabled=tls))) as toy:
        gc.collect()
        gc.disable()
        earlier = protocols()  # of other tests, which may end only now
        try:
            context = ssl._create_unverified_context() if tls else None
            reader, writer = await asyncio.open_connection("127.0.0.1", toy.server.port, ssl=context)
            writer.write(request)
            await writer.drain()
            await until(lambda: toy.counter("api.requests") == 1)
            if how == "answered":
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 401")
            writer.transport.abort()
            await until(lambda: not [one for one in protocols() if one not in earlier])
        finally:
            gc.enable()


async def test_the_last_connection_that_a_sweep_looked_at_is_freed(serve: Serve) -> None:
    async with serve(limits=replace(ConnectionLimits(), head_seconds=0.2, idle_seconds=0.2)) as toy:
        gc.collect()
        gc.disable()
        earlier = protocols()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", toy.server.port)
            await reader.read()  # the server closes what stays silent
            writer.close()
            await until(lambda: not [one for one in protocols() if one not in earlier])
        finally:
            gc.enable()
