"""The lock that one supervisor holds on an installation, and the process that holds it (manager.md 16).

The holder is read from the kernel's list of locks, which no other process can change (proc(5)).
"""

import fcntl
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from secmon.common.privileges import as_root


class AlreadyRunning(Exception):
    """Another supervisor holds the folder; ``pid`` is its process, 0 when unknown."""

    def __init__(self, folder: Path, pid: int, *, stopping: bool = False) -> None:
        self.pid = pid
        process = f" (process {pid})" if pid else ""
        what, first = ("still being stopped", "wait for its end") if stopping else ("already running", "stop it first")
        super().__init__(f"secmon is {what} in {folder}{process}; {first}: secmon stop --root {folder}")


class SupervisorLock:
    """One supervisor per installation: an flock that the kernel releases when its holder dies, however it dies.

    The installation folder itself is locked. A file in ``var/run`` could be removed under a running node, and the next
    start would lock another file of the same name. The holder is read from the kernel: a file with its process id could
    be forged.
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
        """The process that holds the lock; 0 when there is none, or it is not known."""
        return lock_holder(self._root)

    def end_holder(self) -> bool:
        """Send TERM to the supervisor that holds the lock; whether there was one.

        A process of another user than root and the folder's owner is not signalled.
        """
        with as_root():
            return end_lock_holder(self._root)

    def _open(self) -> int:
        return os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


_TRIES = 10
_PAUSE_SECONDS = 0.03


def _taken(descriptor: int) -> bool:
    """Lock ``descriptor``. :meth:`SupervisorLock.held` takes a shared lock for a moment: such locks are waited for."""
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE_SECONDS)
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


_LOCK = re.compile(
    r"FLOCK +ADVISORY +WRITE +(?P<pid>[1-9]\d*) (?P<major>[0-9a-f]+):(?P<minor>[0-9a-f]+):(?P<inode>\d+) ", re.M
)


def lock_holder(folder: Path) -> int:
    """The process that holds the exclusive lock on ``folder``; 0 when there is none, or it is not known."""
    return next(_candidates(folder), 0)


def end_lock_holder(folder: Path) -> bool:
    """Send TERM to the process that holds the exclusive lock on ``folder``; whether there is one that may hold it.

    Its user must be root, the owner of the folder, or the user of this process. The process is checked itself, by a
    descriptor: the kernel lists an inherited lock under the id of the process that took it, which may have ended.
    """
    for pid in _candidates(folder):
        with suppress(ProcessLookupError, FileNotFoundError):
            process = os.pidfd_open(pid)
            try:
                if _real_user(pid) in {0, os.getuid(), folder.stat().st_uid} and _has_locked(pid, folder):
                    signal.pidfd_send_signal(process, signal.SIGTERM)
                    return True
            finally:
                os.close(process)
    return False


def _candidates(folder: Path) -> Iterator[int]:
    """Processes with such a lock on ``folder``. Some file systems show other device numbers here than in ``stat``."""
    try:
        status, locks = folder.stat(), Path("/proc/locks").read_text()
    except OSError:
        return
    device = os.major(status.st_dev), os.minor(status.st_dev)
    found = [match for match in _LOCK.finditer(locks) if int(match["inode"]) == status.st_ino]
    same = [match for match in found if (int(match["major"], 16), int(match["minor"], 16)) == device]
    yield from (int(match["pid"]) for match in same or found)


def _real_user(pid: int) -> int:
    line = re.search(r"^Uid:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(line[1]) if line else -1


def _has_locked(pid: int, folder: Path) -> bool:
    wanted = folder.stat()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            found = os.stat(f"/proc/{pid}/fd/{name}")
            lock = _LOCK.search(Path(f"/proc/{pid}/fdinfo/{name}").read_text())
            if os.path.samestat(found, wanted) and lock is not None and int(lock["pid"]) == pid:
                return True
    return False
