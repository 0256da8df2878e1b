"""Control sockets against well-behaved, confused and hostile clients."""

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
from secmon.daemons.control import SupervisorControl, ask
from secmon.daemons.sockets import MAX_CLIENTS, MAX_LINE, BadRequest, ControlServer, _parse


async def answer(command: str, request: Mapping[str, Any]) -> object:
    match command:
        case "echo":
            return request
        case "refuse":
            raise SecmonError(1908, "this file")
        case "fault":
            raise RuntimeError("a bug")
        case "never":
            await asyncio.Event().wait()
    raise SecmonError(1014, command)


@asynccontextmanager
async def server(root: Path, idle_seconds: float = 5.0) -> AsyncIterator[Path]:
    path = root / "toy"
    control = ControlServer(path, answer, idle_seconds=idle_seconds)
    await control.open()
    try:
        yield path
    finally:
        await control.close()


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def talk(path: Path, data: bytes) -> list[dict[str, Any]]:
    """All answers to ``data``, until the other side closes or half a conversation is done."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        writer.write(data)
        writer.write_eof()
        return [json.loads(line) async for line in reader]
    except ConnectionResetError:
        return []
    finally:
        await hang_up(writer)


@pytest.mark.anyio
async def test_answers_in_order(root: Path) -> None:
    async with server(root) as path:
        replies = await talk(path, b'{"command": "echo", "n": 1}\n{"command": "echo", "n": 2}\n')
    assert [reply["data"]["n"] for reply in replies] == [1, 2]
    assert {reply["error"] for reply in replies} == {0}


@pytest.mark.anyio
async def test_mode_and_removal(root: Path) -> None:
    async with server(root) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert [each.name for each in root.iterdir()] == ["toy"]
    assert list(root.iterdir()) == []


@pytest.mark.anyio
async def test_stale_socket_is_replaced(root: Path) -> None:
    (root / "toy").touch()
    async with server(root) as path:
        assert await ask(path, "echo") == {"command": "echo"}


@pytest.mark.parametrize(
    "line",
    [b"", b"garbage", b"[]", b"{}", b'{"command": 1}', b"\xff\xfe", b'{"command": "echo"', b"[" * 5000, b"null", b"\0"],
)
@pytest.mark.anyio
async def test_garbage_is_answered_and_the_connection_lives(root: Path, line: bytes) -> None:
    async with server(root) as path:
        replies = await talk(path, line + b'\n{"command": "echo"}\n')
    assert [reply["error"] for reply in replies] == [1014, 0]


@given(line=st.binary(max_size=200))
@settings(max_examples=150)
def test_any_line_parses_or_is_refused(line: bytes) -> None:
    with suppress(BadRequest):
        assert isinstance(_parse(line)["command"], str)


@pytest.mark.anyio
async def test_huge_line_ends_its_connection_only(root: Path) -> None:
    async with server(root) as path:
        await talk(path, b"x" * (MAX_LINE * 4) + b"\n")
        assert await ask(path, "echo") == {"command": "echo"}


@pytest.mark.anyio
async def test_silent_client_is_dropped(root: Path) -> None:
    async with server(root, idle_seconds=0.05) as path:
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(b'{"command"')
        assert await reader.read() == b""
        await hang_up(writer)
        assert await ask(path, "echo") == {"command": "echo"}


@pytest.mark.anyio
async def test_client_that_does_not_read_is_dropped(root: Path) -> None:
    line = json.dumps({"command": "echo", "text": "x" * 60_000}).encode() + b"\n"
    async with server(root, idle_seconds=0.05) as path:
        _reader, writer = await asyncio.open_unix_connection(str(path))
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(line)
                await writer.drain()
        await hang_up(writer)
        assert await ask(path, "echo") == {"command": "echo"}


@pytest.mark.anyio
async def test_too_many_clients_are_told(root: Path) -> None:
    async with server(root) as path:
        held = [await asyncio.open_unix_connection(str(path)) for _ in range(MAX_CLIENTS)]
        with pytest.raises(SecmonError, match="Too many connections"):
            await ask(path, "echo")
        for _, writer in held:
            await hang_up(writer)


@pytest.mark.anyio
async def test_fault_in_a_command_is_an_answer(root: Path) -> None:
    async with server(root) as path:
        with pytest.raises(SecmonError) as caught:
            await ask(path, "fault")
        assert caught.value.code == 1000
        assert "a bug" not in caught.value.message
        assert await ask(path, "echo") == {"command": "echo"}


@pytest.mark.anyio
async def test_errors_cross_whole(root: Path) -> None:
    async with server(root) as path:
        with pytest.raises(SecmonError) as caught:
            await ask(path, "refuse")
    assert (caught.value.code, caught.value.extra) == (1908, "this file")


@pytest.mark.anyio
async def test_no_answer_in_time(root: Path) -> None:
    async with server(root) as path:
        with pytest.raises(SecmonError) as caught:
            await ask(path, "never", timeout=0.05)
    assert caught.value.code == 1014


@pytest.mark.anyio
async def test_absent_and_refusing_sockets(root: Path) -> None:
    with pytest.raises(SecmonError) as caught:
        await ask(root / "none", "echo")
    assert caught.value.code == 1121
    async with server(root) as path:
        (root / "kept").hardlink_to(path)
    with pytest.raises(SecmonError) as caught:
        await ask(root / "kept", "echo")
    assert caught.value.code == 1013


@pytest.mark.anyio
async def test_control_without_a_supervisor(root: Path) -> None:
    from secmon.common.paths import Paths

    (root / "queue/sockets").mkdir(parents=True)
    control = SupervisorControl(Paths(root))
    with pytest.raises(SecmonError) as caught:
        await control.restart()
    assert caught.value.code == 1901
    async with server(root) as path:
        (root / "queue/sockets/control").hardlink_to(path)
    with pytest.raises(SecmonError) as caught:
        await control.restart()
    assert caught.value.code == 1902
    assert set(control.status().values()) == {"stopped"}
