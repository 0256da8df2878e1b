"""The process that forks daemons: children are as good as new, and none is forgotten."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from secmon.daemons.daemon import StartFailed
from secmon.daemons.fork_server import ForkedProcess, ForkServer
from tests.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server() -> AsyncIterator[ForkServer]:
    made = ForkServer(["tests.daemons.toys", "no.such.module"])
    yield made
    await made.close()


@asynccontextmanager
async def forked(server: ForkServer, root: Path, name: str = "secmon-apid") -> AsyncIterator[ForkedProcess]:
    """A child that waits for its secrets as long as the block lasts, at whose end it is killed."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        arguments = [name, "--root", str(root), "--factory", "tests.daemons.toys:build"]
        child = await server.fork(arguments, theirs.fileno())
        yield child
        child.kill()
        await child.wait()


def title(process: ForkedProcess) -> str:
    return " ".join(psutil.Process(process.pid).cmdline()).strip()


def named(process: ForkedProcess) -> bool:
    return title(process).startswith("secmon-apid")


def parent(process: ForkedProcess) -> psutil.Process:
    found = psutil.Process(process.pid).parent()
    assert found is not None
    return found


async def test_children_have_names_sessions_and_ends_of_their_own(server: ForkServer, tmp_path: Path) -> None:
    async with forked(server, tmp_path) as one, forked(server, tmp_path, "secmon-clusterd") as two:
        await until(lambda: title(one) == f"secmon-apid --root {tmp_path}")
        await until(lambda: title(two) == f"secmon-clusterd --root {tmp_path}")
        assert parent(one) == parent(two)
        assert [os.getsid(each.pid) for each in (one, two)] == [one.pid, two.pid]
        one.kill()
        two.signal(signal.SIGTERM)
        assert (await one.wait(), await two.wait()) == (-signal.SIGKILL, -signal.SIGTERM)
        assert not one.running
        assert not psutil.pid_exists(one.pid)


async def test_a_child_holds_nothing_of_its_siblings(server: ForkServer, tmp_path: Path) -> None:
    counts = set()
    async with AsyncExitStack() as stack:
        children = [await stack.enter_async_context(forked(server, tmp_path)) for _ in range(3)]
        for child in children:
            await until(partial(named, child))
            counts.add(psutil.Process(child.pid).num_fds())
    assert len(counts) == 1


async def test_a_server_that_dies_is_replaced_and_its_children_live(server: ForkServer, tmp_path: Path) -> None:
    async with forked(server, tmp_path) as orphan:
        parent(orphan).kill()
        async with forked(server, tmp_path) as child:
            assert psutil.Process(orphan.pid).is_running()
            orphan.kill()
            assert await orphan.wait() is None
            child.kill()
            assert await child.wait() == -signal.SIGKILL


async def test_an_exchange_that_is_cut_short_affects_no_other(server: ForkServer, tmp_path: Path) -> None:
    for seconds in (0.001, 0.1, 1):
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), forked(server, tmp_path):
                pass
    async with forked(server, tmp_path) as child:
        child.kill()
        assert await child.wait() == -signal.SIGKILL


async def test_the_server_ends_with_its_supervisor(server: ForkServer, tmp_path: Path) -> None:
    async with forked(server, tmp_path) as child:
        process = parent(child)
        await server.close()
        assert not process.is_running()
        child.kill()
        assert await child.wait() is None


async def test_a_server_that_does_not_run_is_a_start_that_failed(tmp_path: Path) -> None:
    server = ForkServer(["--no-such-option"])
    with pytest.raises(StartFailed, match="has ended"):
        async with forked(server, tmp_path):
            pass
    await server.close()
