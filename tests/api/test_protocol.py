"""Framing: raw bytes on real sockets."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator

import pytest

from secmon.api.protocol import ConnectionLimits
from secmon.common.accept.limiter import AcceptLimits
from secmon.config.api import Https
from tests.api.conftest import Serve, Toy
from tests.api.toys import api_config
from tests.event_loops import ASYNCIO, UVLOOP, Backend
from tests.waiting import until

pytestmark = pytest.mark.anyio

QUICK = ConnectionLimits(head_seconds=0.2, idle_seconds=0.2, linger_seconds=0.2)
GET = b"GET /items HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(params=[ASYNCIO, UVLOOP], ids=["asyncio", "uvloop"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    """Both loops: their transports differ."""
    return request.param  # type: ignore[no-any-return]


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def connect(toy: Toy, *, tls: bool = False) -> AsyncIterator[Stream]:
    context = ssl._create_unverified_context() if tls else None
    reader, writer = await asyncio.open_connection("127.0.0.1", toy.server.port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def say(toy: Toy, data: bytes) -> bytes:
    """Everything that comes back until the server closes the connection."""
    async with connect(toy) as (reader, writer):
        writer.write(data)
        return await read_all(reader)


async def read_all(reader: asyncio.StreamReader) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := await reader.read(65536):
            received += chunk
    return received


async def read_response(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head, await reader.readexactly(length)


@pytest.mark.parametrize(
    "data",
    [
        b"hello there\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),  # TLS to a plain port
        b"GET / HTTP/9.9\r\n\r\n",
        b"G\0T / HTTP/1.1\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /a\0b HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nBad Header: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: a\0b\r\n\r\n",
        b"PUT /items HTTP/1.1\r\nContent-Length: abc\r\n\r\n",
        b"PUT /items HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"PUT /items HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"PUT /items HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PUT /items HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"PUT /items HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"CONNECT example:443 HTTP/1.1\r\nHost: example:443\r\n\r\n",
        b"GET /" + b"a" * 8200 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        GET + b"X-Long: " + b"a" * 8200 + b"\r\n\r\n",
        GET + b"X" * 9000 + b": a\r\n\r\n",
        GET + b"".join(b"X-%d: y\r\n" % number for number in range(200)) + b"\r\n",
        GET + b"".join(b"X-%d: %b\r\n" % (number, b"a" * 8000) for number in range(20)) + b"\r\n",
        b"GET /" + b"a" * 300_000,
        GET + b"X: " + b"a" * 300_000,
        b"\r\n" * 50_000,
    ],
    ids=lambda data: repr(data[:24]),
)
async def test_no_http(serve: Serve, data: bytes) -> None:
    async with serve() as toy:
        answer = await say(toy, data)
        assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n")
        assert b"\r\nserver:" not in answer.lower()
        assert '"UNKNOWN /" with parameters {} and body {} done in 0.000s: 400' in toy.log()
        assert "unknown_user 127.0.0.1" in toy.log()
        assert toy.counter("api.refused.framing") == 1


async def test_longest_line_and_header(serve: Serve) -> None:
    async with serve() as toy:
        line = b"GET /" + b"a" * 8100 + b" HTTP/1.1\r\nHost: x\r\nX: " + b"b" * 8100 + b"\r\nConnection: close\r\n\r\n"
        assert (await say(toy, line)).startswith(b"HTTP/1.1 404")


async def test_unknown_expectation(serve: Serve) -> None:
    async with serve() as toy:
        assert (await say(toy, GET + b"Expect: miracles\r\n\r\n")).startswith(b"HTTP/1.1 417 Expectation Failed")


async def test_continue(serve: Serve) -> None:
    async with serve(api_config(max_upload_size=100)) as toy, connect(toy) as (reader, writer):
        writer.write(b"PUT /items HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"{}")
        assert (await read_response(reader))[0].startswith(b"HTTP/1.1 401")
        # Refused by its length: nothing is asked for.
        writer.write(b"PUT /items HTTP/1.1\r\nContent-Length: 200\r\nExpect: 100-continue\r\n\r\n")
        assert (await read_response(reader))[0].startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("sent", [b"", b"GET /it", GET + b"X-Slow: ", b"\r\n"])
async def test_slow_heads_time_out(serve: Serve, sent: bytes) -> None:
    async with serve(limits=QUICK) as toy, connect(toy) as (reader, writer):
        writer.write(sent)

        async def dribble() -> None:
            with contextlib.suppress(ConnectionError):
                while sent and not writer.is_closing():
                    writer.write(b"\r\n" if sent == b"\r\n" else b"a")
                    await asyncio.sleep(0.02)

        dribbling = asyncio.create_task(dribble())
        assert await read_all(reader) == b""
        dribbling.cancel()
        assert toy.counter("api.connections.timed_out") == 1


async def test_idle_connections_time_out(serve: Serve) -> None:
    async with serve(limits=QUICK) as toy, connect(toy) as (reader, writer):
        writer.write(GET + b"\r\n")
        assert (await read_response(reader))[0].startswith(b"HTTP/1.1 401")
        assert await reader.read() == b""


async def test_slow_bodies_time_out(serve: Serve) -> None:
    async with serve(body_seconds=0.1) as toy:
        answer = await say(toy, b"PUT /items HTTP/1.1\r\nContent-Length: 10\r\n\r\nab")
        assert answer.startswith(b"HTTP/1.1 408 Request Timeout")
        assert b'"title": "Request Timeout"' in answer
        assert toy.log().splitlines()[-1].endswith(": 408")


PUT_200 = b"PUT /items HTTP/1.1\r\nHost: x\r\nContent-Length: 200\r\n\r\n"
CHUNKED = b"PUT /items HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize(
    ("first", "rest"),
    [
        (PUT_200, b"x" * 200),  # refused by its length alone
        (PUT_200, GET.ljust(200, b"x")),  # a body that looks like a request
        (PUT_200 + b"x" * 150, b"x" * 50),
        (CHUNKED + b"96\r\n" + b"x" * 150, b"\r\n0\r\n\r\n"),
        (CHUNKED + b"96\r\n" + b"x" * 150, b"no chunk"),
    ],
)
async def test_a_body_that_is_too_large_ends_the_connection(serve: Serve, tls: bool, first: bytes, rest: bytes) -> None:
    """The answer comes at once and is the last one, whatever the client goes on sending."""
    config = api_config(max_upload_size=100, https=Https(enabled=tls))
    async with serve(config) as toy, connect(toy, tls=tls) as (reader, writer):
        writer.write(first)
        head, body = await read_response(reader)
        assert head.startswith(b"HTTP/1.1 413")
        assert b"\r\nconnection: close\r\n" in head
        assert body.startswith(b'{"title": "Request Entity Too Large"')
        with contextlib.suppress(ConnectionError):
            writer.write(rest + GET + b"\r\n")
            await writer.drain()
        assert await read_all(reader) == b""
        assert toy.counter("api.requests") == 1


async def test_the_rest_of_a_refused_body_is_awaited_for_a_moment(serve: Serve) -> None:
    config = api_config(max_upload_size=100)
    async with serve(config, limits=QUICK) as toy, connect(toy) as (reader, writer):
        writer.write(PUT_200)
        assert (await read_response(reader))[0].startswith(b"HTTP/1.1 413")
        assert await read_all(reader) == b""
        assert toy.counter("api.connections.timed_out") == 1


async def test_clients_that_read_late_get_to_the_refusal(serve: Serve) -> None:
    """Were the connection closed at once, its end would overtake the answer."""
    async with serve(api_config(max_upload_size=100)) as toy, connect(toy) as (reader, writer):
        writer.write(b"PUT /items HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n")
        for _ in range(30):
            writer.write(b"x" * 100_000)
            await writer.drain()
        assert (await read_response(reader))[0].startswith(b"HTTP/1.1 413")
        assert await reader.read() == b""


async def test_requests_in_a_row_are_answered_in_order(serve: Serve) -> None:
    async with serve() as toy, connect(toy) as (reader, writer):
        paths = [b"/items", b"/nothing", b"/", b"/items"]
        writer.write(b"".join(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path for path in paths))
        heads = [(await read_response(reader))[0][:12] for _ in paths]
        assert heads == [b"HTTP/1.1 401", b"HTTP/1.1 404", b"HTTP/1.1 401", b"HTTP/1.1 401"]


async def test_too_many_requests_in_a_row(serve: Serve) -> None:
    async with serve() as toy:
        await say(toy, (GET + b"\r\n") * 1000)
        assert toy.counter("api.refused.framing") == 1


async def test_trailers_are_no_headers(serve: Serve) -> None:
    async with serve() as toy:
        token = await toy.token()
        answer = await say(
            toy,
            b"PUT /items HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            b"2\r\n{}\r\n0\r\nAuthorization: Bearer " + token.encode() + b"\r\n\r\n",
        )
        assert answer.startswith(b"HTTP/1.1 401")


async def test_endless_trailers_are_cut(serve: Serve) -> None:
    async with serve() as toy, connect(toy) as (reader, writer):
        writer.write(b"PUT /items HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ")
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                writer.write(b"a" * 10_000)
                await writer.drain()
        assert await read_all(reader) == b""  # a client could not distinguish a second answer from the first
        assert toy.counter("api.refused.framing") == 1


async def test_upgrade_is_ignored(serve: Serve) -> None:
    async with serve() as toy:
        upgrade = (
            GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\nGET / HTTP/1.1\r\n\r\n"
        )
        answer = await say(toy, upgrade)
        assert answer.count(b"HTTP/1.1 ") == 1
        assert answer.startswith(b"HTTP/1.1 401")


async def test_http_1_0_closes(serve: Serve) -> None:
    async with serve() as toy:
        answer = await say(toy, b"GET /nothing HTTP/1.0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 404")
        assert b"connection: close\r\n" in answer


async def test_connections_are_bounded(serve: Serve) -> None:
    async with serve(limits=ConnectionLimits(accept=AcceptLimits(total=2, reserved=0, per_address=2))) as toy:
        await toy.log_in()
        async with connect(toy) as (first, _), connect(toy) as (second, writer):
            # The third connection (the client's is the first) takes the place of the one that waited longest.
            writer.write(GET + b"\r\n")
            await read_response(second)
            async with connect(toy) as (third, other):
                other.write(GET + b"\r\n")
                await read_response(third)
                assert await read_all(first) == b""
        assert toy.counter("api.connections.evicted") >= 1


async def test_connections_that_work_are_not_evicted(serve: Serve) -> None:
    async with serve(limits=ConnectionLimits(accept=AcceptLimits(total=1, reserved=0, per_address=1))) as toy:
        await toy.log_in()
        working = asyncio.create_task(toy.client.get("/wait"))
        await toy.latch.started.wait()
        with contextlib.suppress(ConnectionError):
            assert await say(toy, GET + b"\r\n") == b""
        toy.latch.released.set()
        assert (await working).status_code == 200
        assert toy.counter("api.connections.refused") == 1


async def test_a_client_that_leaves_cancels_its_request(serve: Serve) -> None:
    async with serve() as toy:
        token = await toy.token()
        async with connect(toy) as (_, writer):
            writer.write(b"GET /wait HTTP/1.1\r\nAuthorization: Bearer " + token.encode() + b"\r\n\r\n")
            await toy.latch.started.wait()
        await toy.latch.cancelled.wait()
        await until(lambda: not toy.counter("api.requests.in_flight"))
        await until(lambda: toy.log().splitlines()[-1].endswith(": 499"))
        assert toy.counter("api.requests.abandoned") == 1
        assert (await toy.client.get("/nothing")).status_code == 404


async def test_too_many_requests_at_once_are_no_error_of_the_first(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve() as toy:
        token = await toy.token()
        request = b"GET /wait HTTP/1.1\r\nAuthorization: Bearer " + token.encode() + b"\r\n\r\n"
        async with connect(toy) as (reader, writer):
            writer.write(request)
            await toy.latch.started.wait()
            writer.write(request * (ConnectionLimits().pipelined + 1))
            with contextlib.suppress(ConnectionError):
                assert await read_all(reader) == b""
        await until(lambda: toy.log().splitlines()[-1].endswith(": 499"))
        await until(lambda: not toy.counter("api.requests.in_flight"))
        assert toy.counter("api.requests.abandoned") == 1
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_client_that_leaves_in_its_body(serve: Serve) -> None:
    async with serve() as toy:
        async with connect(toy) as (_, writer):
            writer.write(b"PUT /items HTTP/1.1\r\nContent-Length: 10\r\n\r\nab")
            await writer.drain()
            await until(lambda: toy.counter("api.requests.in_flight"))
        await until(lambda: not toy.counter("api.requests.in_flight"))
        await until(lambda: toy.log().splitlines()[-1].endswith(": 499"))


async def test_a_client_that_does_not_read_is_dropped(serve: Serve) -> None:
    async with serve(limits=QUICK) as toy:
        token = await toy.token()
        body = b'{"name": "%b", "count": 20000}' % (b"x" * 200)
        request = (
            b"PUT /items HTTP/1.1\r\nContent-Type: application/json\r\nAuthorization: Bearer "
            + token.encode()
            + b"\r\nContent-Length: %d\r\n\r\n" % len(body)
            + body
        )
        client = socket.create_connection(("127.0.0.1", toy.server.port))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(request)
        await until(lambda: toy.counter("api.connections.timed_out"))
        client.close()


async def test_stop_cuts_what_does_not_end(serve: Serve) -> None:
    async with serve() as toy:
        await toy.log_in()
        request = asyncio.create_task(toy.client.get("/wait"))
        await toy.latch.started.wait()
        await toy.server.stop(grace=0.05)
        await toy.latch.cancelled.wait()
        answer = await request
        assert (answer.status_code, answer.json()["title"]) == (503, "Service Unavailable")
        assert toy.log().splitlines()[-1].endswith(": 503")
