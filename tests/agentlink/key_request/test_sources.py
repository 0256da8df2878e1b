"""Sources of keys: real programs, real sockets."""

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from secmon.agentlink.key_request.answer import MAX_ANSWER
from secmon.agentlink.key_request.failures import Failed, TimedOut
from secmon.agentlink.key_request.sources import Program, Socket, Source, source_of
from secmon.agents.link.wire import MissingKey
from secmon.config.auth import KeyRequest
from tests.waiting import until

pytestmark = pytest.mark.anyio

WANTED = MissingKey("id", "007")
HOSTILE = MissingKey("ip", "$(id);'\"` -x *")


def script(folder: Path, text: str, name: str = "keys") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def program(folder: Path, text: str, *, seconds: float = 30) -> Program:
    return Program([str(script(folder, text))], folder=folder, timeout_seconds=seconds)


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def noted(path: Path) -> int:
    """A process's number that a script has written."""
    text = path.read_text() if path.exists() else ""
    return int(text) if text.endswith("\n") else 0


# Programs


async def test_values_are_passed_as_arguments_without_a_shell(tmp_path: Path) -> None:
    code = "import json, os, sys; print(json.dumps([sys.argv[1:], os.getcwd(), sorted(os.environ)]))"
    command = f"{sys.executable} -c '{code}' 'two words' $HOME"
    source = source_of(KeyRequest(exec_path=command, timeout=30), tmp_path)
    assert source is not None
    os.environ["SECMON_TEST_SECRET"] = "x"
    try:
        arguments, folder, environment = json.loads(await source.request(HOSTILE))
    finally:
        del os.environ["SECMON_TEST_SECRET"]
    assert arguments == ["two words", "$HOME", "ip", HOSTILE.value]
    assert folder == str(tmp_path)
    assert "SECMON_TEST_SECRET" not in environment


async def test_an_answer_counts_whatever_the_status(tmp_path: Path) -> None:
    assert await program(tmp_path, "echo answer $1 $2; echo secret >&2; exit 3").request(WANTED) == b"answer id 007\n"
    with pytest.raises(Failed, match=r"keys has ended with status 3 and no answer"):
        await program(tmp_path, "echo; exit 3").request(WANTED)
    with pytest.raises(Failed, match=r"status -9 "):
        await program(tmp_path, "kill -9 $$").request(WANTED)


@pytest.mark.parametrize(("mode", "cause"), [(None, "No such file"), (0o600, "Permission denied")])
async def test_a_program_that_cannot_be_run(tmp_path: Path, mode: int | None, cause: str) -> None:
    path = tmp_path / "keys"
    if mode is not None:
        path.write_text("#!/bin/sh\n")
        path.chmod(mode)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Failed, match=rf"keys cannot be run: {cause}"):
        await Program([str(path)], folder=tmp_path, timeout_seconds=5).request(WANTED)
    await asyncio.sleep(0)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    "child",
    ["sleep 600 & echo $! > child; wait", "setsid sleep 600 & sleep 0.3; pgrep -P $$ sleep > child; wait"],
    ids=["its session", "a session of its own"],
)
async def test_a_program_that_takes_too_long_is_killed_with_its_children(tmp_path: Path, child: str) -> None:
    with pytest.raises(TimedOut, match=r"keys has not answered within 1 s"):
        await program(tmp_path, f"cd '{tmp_path}'; echo '{{'; {child}", seconds=1).request(WANTED)
    pid = noted(tmp_path / "child")
    assert pid
    await until(lambda: not alive(pid))


async def test_a_child_that_holds_the_output_is_killed_in_time(tmp_path: Path) -> None:
    with pytest.raises(TimedOut):
        await program(tmp_path, f"sleep 600 & echo $! > '{tmp_path}/child'", seconds=1).request(WANTED)
    await until(lambda: not alive(noted(tmp_path / "child")))


async def test_too_much_output_ends_the_program(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=rf"longer than {MAX_ANSWER} bytes"):
        await program(tmp_path, f"echo $$ > '{tmp_path}/child'; exec cat /dev/zero").request(WANTED)
    await until(lambda: not alive(noted(tmp_path / "child")))


async def test_a_cancelled_request_ends_the_program(tmp_path: Path) -> None:
    asking = asyncio.create_task(program(tmp_path, f"echo $$ > '{tmp_path}/child'; sleep 600").request(WANTED))
    pid = await until(lambda: noted(tmp_path / "child"))
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not alive(pid)


# Sockets

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(folder: Path, serve: Serve, *, seconds: float = 30) -> AsyncIterator[Source]:
    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_unix_server(served, str(folder / "keys"))
    try:
        made = source_of(KeyRequest(socket="keys", timeout=30), folder)
        assert isinstance(made, Socket)
        yield made if seconds == 30 else Socket(folder / "keys", timeout_seconds=seconds)
    finally:
        server.close()
        await server.wait_closed()


async def test_a_socket_that_leaves_the_connection_open(tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        question = await reader.read(100)
        for part in (b'{"error": 0, "data": {', b'"q": "%b"}' % question, b"}"):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.01)
        assert not await reader.read()
        gone.set()

    async with listening(tmp_path, serve) as source:
        assert await source.request(WANTED) == b'{"error": 0, "data": {"q": "id:007"}}'
        await gone.wait()


async def test_a_socket_that_closes(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(100) == b"id:007":
            writer.write(b"not JSON")

    async with listening(tmp_path, serve) as source:
        assert await source.request(WANTED) == b"not JSON"
        with pytest.raises(Failed, match=r"closed the connection without an answer"):
            await source.request(HOSTILE)


async def test_a_socket_with_a_too_long_answer(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"}" * (MAX_ANSWER + 1))
        await reader.read()

    async with listening(tmp_path, serve) as source:
        with pytest.raises(Failed, match=r"longer than"):
            await source.request(WANTED)


async def test_a_socket_that_is_silent(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b"id:007"

    async with listening(tmp_path, serve, seconds=0.1) as source:
        with pytest.raises(TimedOut, match=r"keys has not answered within 0\.1 s"):
            await source.request(WANTED)


async def test_a_missing_socket(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"keys cannot be asked: "):
        await Socket(tmp_path / "keys", timeout_seconds=5).request(WANTED)


# Which it is


def test_the_program_has_precedence(tmp_path: Path) -> None:
    both = source_of(KeyRequest(exec_path="bin/keys -v", socket="/run/keys"), tmp_path)
    assert isinstance(both, Program)
    assert str(both) == str(tmp_path / "bin/keys")
    assert str(source_of(KeyRequest(socket="/run/keys"), tmp_path)) == "/run/keys"
    assert source_of(KeyRequest(exec_path=" "), tmp_path) is None
    with pytest.raises(ValueError):
        source_of(KeyRequest(exec_path="keys 'x"), tmp_path)
