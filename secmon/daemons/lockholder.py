"""Who holds the lock on a folder: read off the kernel, which nobody can make say something else (proc(5))."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_LOCK = re.compile(
    r"FLOCK +ADVISORY +WRITE +(?P<pid>[1-9]\d*) (?P<major>[0-9a-f]+):(?P<minor>[0-9a-f]+):(?P<inode>\d+) ", re.M
)


def lock_holder(folder: Path) -> int:
    """The process that has locked ``folder`` for itself; 0 when there is none, or the kernel does not tell."""
    return next(_candidates(folder), 0)


def end_lock_holder(folder: Path) -> bool:
    """Send TERM to the process that has locked ``folder`` for itself; whether it is there and may have done so.

    It may when its user is root, the owner of the folder, or that of this process. Asked of the process itself while
    its id cannot become another's: a lock that was inherited stays in the kernel's list under the id of a process that
    may be long gone.
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
    """Processes with such a lock on ``folder``; some file systems count devices otherwise here than in ``stat``."""
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
