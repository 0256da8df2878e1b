"""A file that several processes append to while another one rotates it."""

import fcntl
import os
import secrets
import sys
import time
from contextlib import suppress
from pathlib import Path

from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.file_io import open_regular

_COMPLAINT_INTERVAL = 60.0  # seconds between two reports of the same trouble on standard error
_LOOKS, _LOOK_SECONDS = 5, 0.002  # how long the end of a record that another process is just writing is waited for


class AppendFile:
    """Appends whole records; no record is lost or torn when the file is renamed away.

    A record that a full disk or the death of a process cut off stays as it is; the next one begins a line of its own.

    Writers hold a shared lock on the file while they check that the path still names it and write. Who rotates renames
    the file, then takes the exclusive lock for a moment: from then on every writer has reopened the path.
    """

    def __init__(self, path: Path, mode: int = 0o660) -> None:
        self.path = path
        self._name = os.fspath(path)
        self._mode = mode
        self._fd = -1
        self._identity: tuple[int, int] | None = None
        self._pid = 0
        self._end = -1
        """Size of the file after our last complete record; equal as long as no other process has written."""

    def write(self, data: bytes) -> None:
        """Append ``data``, one or more whole lines, with one ``write``. Raises OSError; a part may be there then."""
        fd, size = self._lock_current()
        try:
            if size != self._end and _is_cut(fd, size):
                data = b"\n" + data
            self._end = -1
            _write_all(fd, data)
            self._end = size + len(data)
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)

    def size(self) -> int:
        """Bytes of the file at the path now; 0 when there is none."""
        try:
            return os.stat(self._name).st_size
        except FileNotFoundError:
            return 0

    def close(self) -> None:
        """Close the descriptor; the next write opens the file again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd, self._identity = -1, None

    def _lock_current(self) -> tuple[int, int]:
        """Descriptor of the file that the path names, locked shared, and the size of the file."""
        if self._pid != os.getpid():  # a forked child shares its parent's lock: it needs a descriptor of its own
            self.close()
            self._pid = os.getpid()
        while True:
            if self._fd < 0:
                self._open()
            fcntl.flock(self._fd, fcntl.LOCK_SH)
            try:
                status = os.lstat(self._name)
            except FileNotFoundError:
                self.close()
                continue
            if (status.st_dev, status.st_ino) == self._identity:
                return self._fd, status.st_size
            self.close()

    def _open(self) -> None:
        try:
            fd = open_regular(self.path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            self._create()
            fd = open_regular(self.path, os.O_RDWR | os.O_APPEND)
        status = os.fstat(fd)
        self._fd, self._identity, self._end = fd, (status.st_dev, status.st_ino), -1

    def _create(self) -> None:
        """Make the file, unless another process does; it appears with its mode and owner, whatever umask and user.

        Root's daemons give it to the folder's owner: those that have dropped their privileges write to it too.
        """
        temporary = f"{self._name}.{secrets.token_hex(8)}.tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            inherit_owner(fd, self.path.parent)
            os.fchmod(fd, self._mode)
            with suppress(FileExistsError):
                os.link(temporary, self._name)
        finally:
            os.close(fd)
            os.unlink(temporary)


def _is_cut(fd: int, size: int) -> bool:
    """Whether the last record of the file has no end."""
    for _ in range(_LOOKS):
        if not size or os.pread(fd, 1, size - 1) == b"\n":
            return False
        time.sleep(_LOOK_SECONDS)
        size = os.fstat(fd).st_size
    return True


def _write_all(fd: int, data: bytes) -> None:
    written = os.write(fd, data)
    while written < len(data):  # the disk is about to be full; try to end the record
        data = data[written:]
        written = os.write(fd, data)


def inherit_owner(target: int | Path, folder: Path) -> None:
    """For root: give ``target`` the owner and group of ``folder``."""
    if os.geteuid() == 0:
        status = os.stat(folder)
        os.chown(target, status.st_uid, status.st_gid)


class WriteTrouble:
    """Counts records that could not be written and says so on standard error, at most once a minute.

    A log that cannot be written must not stop the daemon, and cannot be reported in itself.
    """

    def __init__(self, counter: str, clock: Clock, counters: Counters) -> None:
        self._counter, self._clock, self._counters = counter, clock, counters
        self._quiet_until = float("-inf")
        self._unreported = 0

    def note(self, subject: str, error: BaseException, *, records: int = 1) -> None:
        """Count ``records`` more; ``subject`` says what failed, e.g. the path."""
        self._counters.add(self._counter, records)
        self._unreported += records
        now = self._clock.monotonic()
        if now < self._quiet_until:
            return
        self._quiet_until = now + _COMPLAINT_INTERVAL
        count, self._unreported = self._unreported, 0
        try:
            print(f"secmon: {subject}: {error!r} ({count} since the last report)", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            pass  # standard error is closed: the counter remains
