"""Commands over a socket: well-behaved, confused and hostile clients."""

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.errors import SecmonError
from secmon.common.ipc.commands import CommandServer, command, parse_command
from secmon.common.ipc.framing import frame, read_frame
from secmon.common.ipc.server import Limits

pytestmark = pytest.mark.anyio

MAX_REQUEST = 64 * 1024
MAX_CLIENTS = 8


async def answer(name: str, request: Mapping[str, Any]) -> object:
    match name:
        case "echo":
            return request
        case "refuse":
            raise SecmonError(1908, "this file")
        case "fault":
            raise RuntimeError("a bug")
        case "never":
            await asyncio.Event().wait()
    raise SecmonError(1014, name)


@asynccontextmanager
async def server(tmp_path: Path, idle_seconds: float = 5.0) -> AsyncIterator[Path]:
    path = tmp_path / "toy"
    limits = Limits(request=MAX_REQUEST, clients=MAX_CLIENTS, idle_seconds=idle_seconds)
    commands = CommandServer(path, answer, limits)
    await commands.open()
    try:
        yield path
    finally:
        await commands.close()


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def talk(path: Path, data: bytes) -> list[dict[str, Any]]:
    """All answers to ``data``, until the server closes the connection."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        writer.write(data)
        writer.write_eof()
        replies = []
        while (payload := await read_frame(reader, 1 << 20)) is not None:
            replies.append(json.loads(payload))
        return replies
    except ConnectionResetError:
        return []
    finally:
        await hang_up(writer)


async def test_answers_in_order(tmp_path: Path) -> None:
    async with server(tmp_path) as path:
        replies = await talk(path, frame(b'{"command": "echo", "n": 1}') + frame(b'{"command": "echo", "n": 2}'))
    assert [reply["data"]["n"] for reply in replies] == [1, 2]
    assert {reply["error"] for reply in replies} == {0}


async def test_mode_and_removal_of_the_socket(tmp_path: Path) -> None:
    async with server(tmp_path) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert [each.name for each in tmp_path.iterdir()] == ["toy"]
    assert list(tmp_path.iterdir()) == []


async def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "toy").touch()
    async with server(tmp_path) as path:
        assert await command(path, "echo") == {"command": "echo"}


@pytest.mark.parametrize(
    "payload",
    [b"", b"garbage", b"[]", b"{}", b'{"command": 1}', b"\xff\xfe", b'{"command": "echo"', b"[" * 5000, b"null", b"\0"],
)
async def test_garbage_gets_an_error_and_the_connection_stays_open(tmp_path: Path, payload: bytes) -> None:
    async with server(tmp_path) as path:
        replies = await talk(path, frame(payload) + frame(b'{"command": "echo"}'))
    assert [reply["error"] for reply in replies] == [1014, 0]


@given(payload=st.binary(max_size=200))
@settings(max_examples=150)
def test_any_payload_is_a_command_or_is_refused(payload: bytes) -> None:
    with suppress(SecmonError):
        assert isinstance(parse_command(payload)["command"], str)


async def test_a_huge_request_is_answered_and_ends_its_connection(tmp_path: Path) -> None:
    async with server(tmp_path) as path:
        with pytest.raises(SecmonError, match=f"longer than {MAX_REQUEST} bytes|socket did not answer"):
            await command(path, "echo", text="x" * (MAX_REQUEST * 4))
        reply = await talk(path, (MAX_REQUEST + 1).to_bytes(4, "little"))
        assert [each["message"].partition(": ")[0] for each in reply] == [
            f"The request is longer than {MAX_REQUEST} bytes"
        ]
        assert await command(path, "echo") == {"command": "echo"}


async def test_a_silent_client_is_disconnected(tmp_path: Path) -> None:
    async with server(tmp_path, idle_seconds=0.05) as path:
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(frame(b'{"command": "echo"}')[:-1])
        assert await reader.read() == b""
        await hang_up(writer)
        assert await command(path, "echo") == {"command": "echo"}


async def test_a_client_that_does_not_read_is_disconnected(tmp_path: Path) -> None:
    request = frame(json.dumps({"command": "echo", "text": "x" * 60_000}).encode())
    async with server(tmp_path, idle_seconds=0.05) as path:
        _reader, writer = await asyncio.open_unix_connection(str(path))
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(request)
                await writer.drain()
        await hang_up(writer)
        assert await command(path, "echo") == {"command": "echo"}


async def test_clients_beyond_the_limit_get_an_error(tmp_path: Path) -> None:
    async with server(tmp_path) as path:
        held = [await asyncio.open_unix_connection(str(path)) for _ in range(MAX_CLIENTS)]
        with pytest.raises(SecmonError, match="Too many connections"):
            await command(path, "echo")
        for _, writer in held:
            await hang_up(writer)


async def test_a_fault_in_a_command_is_answered_with_an_error(tmp_path: Path) -> None:
    async with server(tmp_path) as path:
        with pytest.raises(SecmonError) as caught:
            await command(path, "fault")
        assert caught.value.code == 1000
        assert "a bug" not in caught.value.message
        assert await command(path, "echo") == {"command": "echo"}


async def test_errors_keep_code_and_detail(tmp_path: Path) -> None:
    async with server(tmp_path) as path:
        with pytest.raises(SecmonError) as caught:
            await command(path, "refuse")
    assert (caught.value.code, caught.value.extra) == (1908, "this file")


async def test_no_answer_in_time(tmp_path: Path) -> None:
    async with server(tmp_path) as path:
        with pytest.raises(SecmonError) as caught:
            await command(path, "never", seconds=0.05)
    assert caught.value.code == 1014


async def test_absent_and_refusing_sockets(tmp_path: Path) -> None:
    with pytest.raises(SecmonError) as caught:
        await command(tmp_path / "none", "echo")
    assert caught.value.code == 1121
    async with server(tmp_path) as path:
        (tmp_path / "kept").hardlink_to(path)
    with pytest.raises(SecmonError) as caught:
        await command(tmp_path / "kept", "echo")
    assert caught.value.code == 1013
