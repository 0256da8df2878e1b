"""What the processes of a node leave in ``var/run``: pid files, markers, the supervisor's lock (manager.md 8.1, 16)."""

import fcntl
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from secmon.common.atomic import write_file
from secmon.common.rights import as_root
from secmon.daemons.lockholder import end_lock_holder, lock_holder
from secmon.daemons.privileges import Account, is_root
from secmon.daemons.states import RESTARTING, lives, pid_files, process_start


class RunFiles:
    """The run folder of one node. ``account`` is the service account that shares the files, if there is one."""

    def __init__(self, folder: Path, account: Account | None = None) -> None:
        self.folder = folder
        self._account = account

    def starting(self, daemon: str) -> None:
        """Say that ``daemon`` starts: earlier failures and pid files of dead processes are forgotten.

        The order here and below leaves no moment in which the files say that it is stopped.
        """
        self._write(f"{daemon}.start", "")
        self._remove(f"{daemon}.failed")
        self.clear_stale(daemon)

    def running(self, daemon: str) -> None:
        self._remove(f"{daemon}.start")

    def failed(self, daemon: str) -> None:
        self._write(f"{daemon}.failed", "")
        self._remove(f"{daemon}.start")

    def stopped(self, daemon: str) -> None:
        """Say that ``daemon`` was stopped on purpose."""
        self._remove(f"{daemon}.start")
        self._remove(f"{daemon}.failed")
        self.clear_stale(daemon)

    def restarting(self, yes: bool) -> None:
        """Set or remove the marker that makes every daemon read as restarting."""
        if yes:
            self._write(RESTARTING, "")
        else:
            self._remove(RESTARTING)

    def write_pid(self, daemon: str, pid: int | None = None) -> Path:
        """Record ``pid`` (default: this process) with its start, so that a reused pid is not taken for the daemon."""
        pid = pid or os.getpid()
        return self._write(f"{daemon}-{pid}.pid", f"{pid}\n{process_start(pid)}\n")

    def remove_pid(self, daemon: str, pid: int | None = None) -> None:
        self._remove(f"{daemon}-{pid or os.getpid()}.pid")

    def tend_pid(self, daemon: str) -> None:
        """Write the pid file of this process again where it was removed."""
        if not (self.folder / f"{daemon}-{os.getpid()}.pid").exists():
            self.write_pid(daemon)

    def clear_stale(self, daemon: str | None = None) -> None:
        """Remove pid files of processes that are gone: of one daemon or of all."""
        for name, files in pid_files(self.folder).items():
            for file in files:
                if daemon in {None, name} and not lives(file):
                    _clear(file)

    def clear_all(self) -> None:
        """Remove the markers and stale pid files that an earlier supervisor left; for the holder of the lock."""
        for pattern in ("secmon-*.start", "secmon-*.failed", RESTARTING):
            for file in self.folder.glob(pattern):
                _clear(file)
        self.clear_stale()

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        group = self._account.gid if self._account is not None and is_root() else None
        write_file(path, text.encode(), 0o640, gid=group)
        return path

    def _remove(self, name: str) -> None:
        _clear(self.folder / name)


def _clear(path: Path) -> None:
    """Remove what has the place of a run file, be it a folder. Raises OSError."""
    try:
        path.unlink(missing_ok=True)
    except IsADirectoryError:
        shutil.rmtree(path)


class AlreadyRunning(Exception):
    """Another supervisor holds the folder; ``pid`` is its process, 0 when unknown."""

    def __init__(self, folder: Path, pid: int, *, stopping: bool = False) -> None:
        self.pid = pid
        process = f" (process {pid})" if pid else ""
        what, first = ("still being stopped", "wait for its end") if stopping else ("already running", "stop it first")
        super().__init__(f"secmon is {what} in {folder}{process}; {first}: secmon stop --root {folder}")


class SupervisorLock:
    """One supervisor per installation: an flock that the kernel releases when its holder dies, however it dies.

    It lies on the installation folder itself. A file in ``var/run`` could be removed under a node that runs, and the
    next start would lock another one of the same name. Who holds it the kernel says: what a file says of a process,
    whoever may write the file can say of any process.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._descriptor = -1

    def acquire(self) -> None:
        """Take the lock or raise :class:`AlreadyRunning`."""
        descriptor = self._open()
        if not _taken(descriptor):
            os.close(descriptor)
            raise AlreadyRunning(self._root, self.holder())
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def held(self) -> bool:
        """Whether any process holds the lock now."""
        try:
            descriptor = self._open()
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def holder(self) -> int:
        """The process that holds the lock; 0 when there is none, or none that this process may know."""
        return lock_holder(self._root)

    def end_holder(self) -> bool:
        """Send TERM to the supervisor that holds the lock; whether there was one.

        A process of another user than root and the folder's owner is no supervisor, whatever it holds.
        """
        with as_root():
            return end_lock_holder(self._root)

    def _open(self) -> int:
        return os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


_TRIES = 10
_PAUSE_SECONDS = 0.03


def _taken(descriptor: int) -> bool:
    """Lock ``descriptor``. Those who only look hold a shared lock for a moment: they are waited for."""
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE_SECONDS)
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False
