"""The local socket of the link."""

import asyncio
from pathlib import Path

import pytest

from secmon.agentlink.local_socket import LocalSocket
from secmon.agents.link.client import LinkClient
from secmon.agents.link.wire import Answer, FollowReports, Question, encode
from secmon.common.ipc.framing import frame
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def test_a_removed_socket_is_created_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def answer(question: Question) -> Answer:
        asked.set()
        await go_on.wait()
        return Answer(unsent=[7])

    path = tmp_path / "remote"
    local, client = LocalSocket(path, answer), LinkClient(path)
    await local.open()
    in_flight = asyncio.create_task(client.send([(7, "x")]))
    await asked.wait()
    path.unlink()
    await local.tend()
    await local.tend()
    go_on.set()
    assert await in_flight == [7]
    assert await client.send([(7, "x")]) == [7]
    assert caplog.text.count("is created again") == 1
    await local.close()
    assert not path.exists()


async def test_a_stop_leaves_no_task_of_a_subscriber(tmp_path: Path) -> None:
    async def answer(question: Question) -> Answer:
        raise AssertionError(question)

    local = LocalSocket(tmp_path / "remote", answer)
    await local.open()
    reader, writer = await asyncio.open_unix_connection(tmp_path / "remote")
    writer.write(frame(encode(FollowReports())))
    await until(lambda: len(local.reports) == 1)
    await local.close()
    assert await reader.read() == b""
    writer.close()
    assert [task for task in asyncio.all_tasks() if "Queue" in repr(task)] == []
