"""Local events: acknowledged when stored, made to wait when there is no room."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from secmon.common.clock import SystemClock
from secmon.engine.framing import FramedServer
from secmon.engine.input.intake import DatagramSource, Intake
from secmon.journal.journal import JournalReader, JournalWriter
from tests.filelimit import file_size_limit
from tests.waiting import until

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def taking(folder: Path, *, size: int = 1000, limit: int = 1 << 20) -> AsyncIterator[Intake]:
    intake = Intake(JournalWriter(folder, SystemClock(), limit=limit, segment=limit // 8), size=size)
    task = asyncio.create_task(intake.run())
    try:
        yield intake
    finally:
        intake.stop()
        await task
        intake.close()


def stored(reader: JournalReader) -> list[bytes]:
    found = [event for block in reader.read() for event in block.events]
    reader.commit(reader.next)
    return found


async def test_what_is_acknowledged_is_stored(tmp_path: Path) -> None:
    reader = JournalReader(tmp_path, "test")
    async with taking(tmp_path) as intake:
        await asyncio.gather(*(intake.store([b"%d" % number] * 3) for number in range(20)))
        assert sorted(stored(reader)) == sorted(b"%d" % number for number in range(20) for _ in range(3))
        intake.add([b"last"])
    assert stored(reader) == [b"last"]
    reader.close()


async def test_a_full_disk_makes_wait_and_loses_nothing(tmp_path: Path) -> None:
    reader = JournalReader(tmp_path, "test")
    async with taking(tmp_path) as intake:
        with file_size_limit(1000):
            waiting = asyncio.create_task(intake.store([b"x" * 600] * 3))
            await until(lambda: intake.trouble)
            assert not waiting.done()
        await waiting
        assert stored(reader) == [b"x" * 600] * 3
        assert not intake.trouble
    reader.close()


async def test_a_full_journal_refuses_what_wants_an_answer(tmp_path: Path) -> None:
    reader = JournalReader(tmp_path, "test")
    async with taking(tmp_path, size=10, limit=1 << 16) as intake:
        tasks = []
        for _ in range(200):
            tasks.append(asyncio.create_task(intake.store([b"x" * 1000])))
            await asyncio.sleep(0)
        refused = [task for task in tasks if task.done() and isinstance(task.exception(), BlockingIOError)]
        assert refused
        read = 0
        while not all(task.done() for task in tasks):
            read += len(stored(reader))
            await asyncio.sleep(0.01)
        read += len(stored(reader))
        assert read == sum(task.exception() is None for task in tasks)
    reader.close()


async def test_senders_of_datagrams_wait_while_it_is_full(tmp_path: Path) -> None:
    reader = JournalReader(tmp_path / "j", "test")
    async with taking(tmp_path / "j", size=50, limit=1 << 16) as intake:
        source = DatagramSource(tmp_path / "queue", intake)
        intake.on_room = source.resume
        source.open()
        found: list[bytes] = []

        def send() -> None:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.connect(str(tmp_path / "queue"))
                for number in range(2000):
                    sender.send(b"%d" % number + b" " * 100)

        sending = asyncio.create_task(asyncio.to_thread(send))
        while len(found) < 2000:
            found += stored(reader)
            await asyncio.sleep(0.001)
        await sending
        assert [int(one) for one in found] == list(range(2000))
        source.close()
    reader.close()


async def test_a_socket_that_was_removed_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reader, path = JournalReader(tmp_path / "j", "test"), tmp_path / "queue"
    async with taking(tmp_path / "j") as intake:
        source = DatagramSource(path, intake)
        source.open()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(str(path))
            sender.send(b"before")
            path.unlink()
            source.tend()
            source.tend()
            sender.connect(str(path))
            sender.send(b"after")
        await until(lambda: source.received == 2)
        assert caplog.text.count("is made anew") == 1
        source.close()
        assert not path.exists()
    assert stored(reader) == [b"before", b"after"]
    reader.close()


async def test_a_framed_socket_that_was_removed_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def echo(request: bytes) -> bytes:
        return request

    path = tmp_path / "analysis"
    server = FramedServer(path, echo, most=100, too_long=b"")
    await server.open()
    _, kept = await asyncio.open_unix_connection(str(path))
    path.unlink()
    await server.tend()
    await server.tend()
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write((2).to_bytes(4, "little") + b"hi")
    assert await reader.readexactly(6) == (2).to_bytes(4, "little") + b"hi"
    assert caplog.text.count("is made anew") == 1
    for one in (writer, kept):
        one.close()
    await server.close()
    assert not path.exists()
