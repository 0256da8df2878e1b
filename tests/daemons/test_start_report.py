"""Reports of a supervisor to the process and to the service manager that started it."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from secmon.daemons.child_channel import ChildChannel, ParentChannel
from secmon.daemons.start_report import StartReport

pytestmark = pytest.mark.anyio


@pytest.fixture
def manager(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket at which a service manager listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(root / "notify"))
        listener.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(root / "notify"))
        yield listener


def test_a_service_manager_follows_the_life_of_the_node(manager: socket.socket) -> None:
    report = StartReport(None)
    report.ready()
    report.restarting()
    report.restarted()
    report.stopping()
    assert [manager.recv(100) for _ in range(4)] == [b"READY=1", b"RELOADING=1", b"READY=1", b"STOPPING=1"]


def test_a_service_manager_that_is_gone_is_no_error(manager: socket.socket, root: Path) -> None:
    (root / "notify").unlink()
    StartReport(None).ready()
    with pytest.raises(BlockingIOError):
        manager.recv(100)


@pytest.mark.parametrize("failure", [None, "secmon-apid: no port"])
async def test_the_starter_gets_the_outcome(failure: str | None) -> None:
    parent = ParentChannel()
    descriptor = os.dup(parent.child)
    parent.opened({})
    child = ChildChannel(descriptor)
    report = StartReport(child)
    report.ready() if failure is None else report.failed(failure)
    assert await parent.outcome() == failure
    parent.close()
    child._socket.close()
