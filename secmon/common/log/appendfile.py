"""A file that several processes append to while another one rotates it."""

import fcntl
import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path

from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.regular import open_regular

_COMPLAINT_INTERVAL = 60.0  # seconds between two reports of the same trouble on standard error


class AppendFile:
    """Appends whole records; no record is lost or torn when the file is renamed away.

    Writers hold a shared lock on the file while they check that the path still names it and write. Who rotates renames
    the file, then takes the exclusive lock for a moment: from then on nobody writes to it, everybody has reopened.
    """

    def __init__(self, path: Path, mode: int = 0o660) -> None:
        self.path = path
        self._name = os.fspath(path)
        self._mode = mode
        self._fd = -1
        self._identity: tuple[int, int] | None = None
        self._pid = 0
        self._torn = False

    def write(self, data: bytes) -> None:
        """Append ``data``, one or more whole lines, with one ``write``. Raises OSError; then nothing is kept."""
        fd = self._lock_current()
        try:
            if self._torn:  # an earlier record stopped half-way: this one starts a line of its own
                data = b"\n" + data
            self._write_all(fd, data)
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)

    def _write_all(self, fd: int, data: bytes) -> None:
        written = os.write(fd, data)
        while written < len(data):  # the disk is about to be full; try to end the record
            self._torn = True
            data = data[written:]
            written = os.write(fd, data)
        self._torn = False

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

    def _lock_current(self) -> int:
        """Descriptor of the file that the path names, locked shared."""
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
                return self._fd
            self.close()

    def _open(self) -> None:
        try:
            fd = open_regular(self.path, os.O_WRONLY | os.O_APPEND)
        except FileNotFoundError:
            self._create()
            fd = open_regular(self.path, os.O_WRONLY | os.O_APPEND)
        status = os.fstat(fd)
        self._fd, self._identity, self._torn = fd, (status.st_dev, status.st_ino), False

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
        self._unsaid = 0

    def note(self, subject: str, error: BaseException, *, records: int = 1) -> None:
        """Count ``records`` more; ``subject`` says what failed, e.g. the path."""
        self._counters.add(self._counter, records)
        self._unsaid += records
        now = self._clock.monotonic()
        if now < self._quiet_until:
            return
        self._quiet_until = now + _COMPLAINT_INTERVAL
        count, self._unsaid = self._unsaid, 0
        try:
            print(f"secmon: {subject}: {error!r} ({count} since the last report)", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            pass  # standard error is closed: the counter remains
