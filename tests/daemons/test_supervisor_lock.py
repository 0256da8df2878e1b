"""The supervisor's lock."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from secmon.daemons.supervisor_lock import AlreadyRunning, SupervisorLock
from tests.waiting import LIMIT_SECONDS


def test_lock_is_held_by_one(lock: SupervisorLock, root: Path) -> None:
    assert not lock.held()
    lock.acquire()
    other = SupervisorLock(root)
    assert other.held()
    assert other.holder() == os.getpid()
    with pytest.raises(AlreadyRunning, match=rf"already running in {root} \(process {os.getpid()}\)"):
        other.acquire()
    lock.release()
    assert not other.held()
    other.acquire()
    other.release()
    assert other.holder() == 0


def test_lock_ends_with_its_holder(lock: SupervisorLock, root: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from secmon.daemons.supervisor_lock import SupervisorLock;"
        "SupervisorLock(Path(sys.argv[1])).acquire(); print('held', flush=True); input()"
    )
    holder = subprocess.Popen([sys.executable, "-c", script, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    assert lock.held()
    holder.kill()
    holder.communicate()
    assert not lock.held()
    lock.acquire()
    lock.release()


def test_the_kernel_says_who_holds_the_lock(lock: SupervisorLock, root: Path) -> None:
    (root / "run/supervisor.lock").write_text("1\n")
    assert lock.holder() == 0
    assert not lock.end_holder()
    script = (
        "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX);"
        "pid = os.fork(); print(pid, flush=True) if pid else input()"
    )
    heir = subprocess.Popen(
        [sys.executable, "-c", script, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with heir:
        assert heir.stdout is not None
        child = int(heir.stdout.readline())
        heir.wait()
        # The kernel lists the lock under the process that took it, which is gone: its id may become anybody's.
        assert lock.held()
        assert not lock.end_holder()
        os.kill(child, signal.SIGKILL)


def test_the_holder_is_ended(lock: SupervisorLock, root: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from secmon.daemons.supervisor_lock import SupervisorLock;"
        "SupervisorLock(Path(sys.argv[1])).acquire(); print('held', flush=True); input()"
    )
    command = [sys.executable, "-c", script, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert lock.holder() == holder.pid
        assert lock.end_holder()
        assert holder.wait(LIMIT_SECONDS) == -signal.SIGTERM


def test_who_looks_does_not_keep_the_next_from_starting(lock: SupervisorLock, root: Path) -> None:
    looker = os.open(root, os.O_RDONLY)
    fcntl.flock(looker, fcntl.LOCK_SH)
    threading.Timer(0.05, os.close, [looker]).start()
    lock.acquire()
    assert lock.holder() == os.getpid()
    lock.release()
