"""The sockets for events of the node's own tools."""

import asyncio
import socket
from pathlib import Path

import pytest

from secmon.engine.input.datagrams import DatagramSource
from secmon.journal.journal import JournalReader
from tests.journal.writing import stored, writing
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def test_senders_of_datagrams_wait_while_it_is_full(tmp_path: Path) -> None:
    reader = JournalReader(tmp_path / "j", "test")
    async with writing(tmp_path / "j", size=50, limit=1 << 16) as writer:
        source = DatagramSource(tmp_path / "queue", writer)
        writer.on_room = source.resume
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


async def test_a_removed_socket_is_created_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reader, path = JournalReader(tmp_path / "j", "test"), tmp_path / "queue"
    async with writing(tmp_path / "j") as writer:
        source = DatagramSource(path, writer)
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
        assert caplog.text.count("is created again") == 1
        source.close()
        assert not path.exists()
    assert stored(reader) == [b"before", b"after"]
    reader.close()
