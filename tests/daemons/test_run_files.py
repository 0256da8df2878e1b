"""Run files and the supervisor's lock."""

import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from secmon.daemons.run_files import AlreadyRunning, RunFiles, SupervisorLock

APID = "secmon-apid"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_life_of_a_daemon(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    run.starting(APID)
    assert names(tmp_path) == {f"{APID}.start"}
    file = run.write_pid(APID)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    run.running(APID)
    assert names(tmp_path) == {f"{APID}-{os.getpid()}.pid"}
    run.failed(APID)
    assert names(tmp_path) == {f"{APID}-{os.getpid()}.pid", f"{APID}.failed"}
    run.remove_pid(APID)
    run.stopped(APID)
    assert names(tmp_path) == set()


def test_start_forgets_the_failure_and_dead_processes_before_it(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    run.failed(APID)
    (tmp_path / f"{APID}-999999999.pid").touch()
    (tmp_path / "secmon-clusterd-999999999.pid").touch()
    run.starting(APID)
    assert names(tmp_path) == {f"{APID}.start", "secmon-clusterd-999999999.pid"}


def test_everything_that_an_earlier_supervisor_left_is_cleared(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    run.failed(APID)
    run.starting("secmon-clusterd")
    run.restarting(True)
    (tmp_path / f"{APID}-999999999.pid").touch()
    living = run.write_pid(APID)
    run.clear_all()
    assert names(tmp_path) == {living.name}


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
        "import sys; from pathlib import Path; from secmon.daemons.run_files import SupervisorLock;"
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
        "import sys; from pathlib import Path; from secmon.daemons.run_files import SupervisorLock;"
        "SupervisorLock(Path(sys.argv[1])).acquire(); print('held', flush=True); input()"
    )
    command = [sys.executable, "-c", script, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert lock.holder() == holder.pid
        assert lock.end_holder()
        assert holder.wait(10) == -signal.SIGTERM


def test_who_looks_does_not_keep_the_next_from_starting(lock: SupervisorLock, root: Path) -> None:
    looker = os.open(root, os.O_RDONLY)
    fcntl.flock(looker, fcntl.LOCK_SH)
    threading.Timer(0.05, os.close, [looker]).start()
    lock.acquire()
    assert lock.holder() == os.getpid()
    lock.release()


def test_pid_file_is_put_back(tmp_path: Path) -> None:
    run = RunFiles(tmp_path)
    file = run.write_pid(APID)
    before = file.read_text()
    file.unlink()
    run.tend_pid(APID)
    assert file.read_text() == before


def test_folders_in_the_place_of_run_files_are_cleared(tmp_path: Path) -> None:
    for name in ("secmon-apid-1.pid", "secmon-apid.start", "secmon-apid.failed", ".restart"):
        (tmp_path / name / "within").mkdir(parents=True)
    RunFiles(tmp_path).clear_all()
    assert names(tmp_path) == set()
