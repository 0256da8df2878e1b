"""The server of frames: subscriptions, cancellation, and a socket that is removed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from secmon.common.ipc.client import call, call_error, subscribe
from secmon.common.ipc.framing import frame
from secmon.common.ipc.server import Answers, FrameServer, InvalidRequest, Limits
from tests.waiting import until

pytestmark = pytest.mark.anyio

LIMITS = Limits(request=1000, clients=8)


class Handler:
    """Echoes requests. ``never`` waits, ``count`` is a subscription to numbers, ``junk`` is not valid."""

    def __init__(self) -> None:
        self.under_way = self.subscribers = 0

    async def __call__(self, request: bytes) -> bytes | Answers:
        if request == b"junk":
            raise InvalidRequest
        if request == b"count":
            return self._count()
        self.under_way += 1
        try:
            if request == b"never":
                await asyncio.Event().wait()
            return request
        finally:
            self.under_way -= 1

    async def _count(self) -> Answers:
        self.subscribers += 1
        try:
            for number in range(3):
                yield b"%d" % number
            await asyncio.Event().wait()
        finally:
            self.subscribers -= 1


@asynccontextmanager
async def serving(folder: Path, handler: Handler, *, cancels: bool = True) -> AsyncIterator[tuple[FrameServer, Path]]:
    path = folder / "toy"
    server = FrameServer(path, handler, LIMITS, cancels=cancels)
    await server.open()
    try:
        yield server, path
    finally:
        await server.close()
        assert not path.exists()


@pytest.mark.parametrize("cancels", [True, False])
async def test_calls_one_after_the_other_on_one_connection(tmp_path: Path, cancels: bool) -> None:
    async with serving(tmp_path, Handler(), cancels=cancels) as (_, path):
        reader, writer = await asyncio.open_unix_connection(str(path))
        for payload in (b"a", b"", b"b" * 1000):
            writer.write(frame(payload))
            assert await reader.readexactly(4 + len(payload)) == frame(payload)
        writer.close()


@pytest.mark.parametrize("cancels", [True, False])
async def test_a_subscription_ends_when_its_client_closes(tmp_path: Path, cancels: bool) -> None:
    handler = Handler()
    async with serving(tmp_path, handler, cancels=cancels) as (_, path):
        found = []
        async with aclosing(subscribe(path, b"count")) as answers:
            async for each in answers:
                found.append(each)
                if len(found) == 3:
                    break
        assert found == [b"0", b"1", b"2"]
        if cancels:
            await until(lambda: handler.subscribers == 0)
    assert handler.subscribers == 0


async def test_a_client_that_closes_cancels_its_call(tmp_path: Path) -> None:
    handler = Handler()
    async with serving(tmp_path, handler) as (_, path):
        calling = asyncio.create_task(call(path, b"never", seconds=None))
        await until(lambda: handler.under_way == 1)
        calling.cancel()
        await until(lambda: handler.under_way == 0)


async def test_closing_the_server_ends_calls(tmp_path: Path) -> None:
    handler = Handler()
    async with serving(tmp_path, handler) as (_, path):
        calling = asyncio.create_task(call(path, b"never", seconds=None))
        await until(lambda: handler.under_way == 1)
    with pytest.raises(ConnectionError):
        await calling
    assert handler.under_way == 0


async def test_an_invalid_request_ends_its_connection(tmp_path: Path) -> None:
    async with serving(tmp_path, Handler()) as (_, path):
        with pytest.raises(ConnectionError):
            await call(path, b"junk", seconds=5)
        assert await call(path, b"x", seconds=5) == b"x"


async def test_a_removed_socket_is_created_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(tmp_path, Handler()) as (server, path):
        await server.tend()
        reader, writer = await asyncio.open_unix_connection(str(path))
        path.unlink()
        await server.tend()
        await server.tend()
        assert await call(path, b"x", seconds=5) == b"x"
        writer.write(frame(b"kept"))
        assert await reader.readexactly(8) == frame(b"kept")
        writer.close()
    assert caplog.text.count("is created again") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FileNotFoundError(), 1121),
        (ConnectionRefusedError(), 1013),
        (PermissionError(), 1013),
        (TimeoutError(), 1014),
        (ConnectionResetError("x"), 1014),
    ],
)
def test_codes_of_failed_calls(error: OSError, code: int) -> None:
    assert call_error(error, Path("toy")).code == code
