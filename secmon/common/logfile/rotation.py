"""Rotation of log files: close, compress, delete (manager.md 12.4, conventions.md 12.2, cluster.md 7.3).

The one mechanism for the logs of the daemons, the request log of the API and the outputs of the analysis engine; what
differs between them is in their :class:`RotationPolicy`.

A file is closed in two steps, so that an interruption at any point loses nothing: it is renamed to its final name
without ``.gz``, then, when the last writer has released it, compressed aside and removed. An interruption leaves an
uncompressed file with a final name, which the next :meth:`LogRotation.tidy` compresses. No final name is used twice.

Locks: a process that renames holds the folder of the current file, one that compresses holds the archive folder, so
that two processes never do the same. Neither waits for the other, and writers (``append_file``) wait for neither.
"""

import fcntl
import gzip
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from secmon.common.file_io import open_regular, sync_folder
from secmon.common.logfile.append_file import inherit_owner
from secmon.common.logfile.checksums import write_checksums
from secmon.common.logfile.log_series import FILE_MODE, LogSeries

_FIRST_DAY = re.compile(rb'^(?:\{"timestamp": ?")?(\d{4})/(\d\d)/(\d\d) ', re.M)
_HEAD_BYTES = 8192
_LOCK_PAUSE = 0.005  # seconds between attempts
_WRITERS_SECONDS = 1.0  # how long to wait for records on their way; they take microseconds


@dataclass(frozen=True, kw_only=True)
class RotationPolicy:
    """When a log file is closed, and what becomes of its closed parts."""

    by_day: bool = True
    day_wait_seconds: int = 0
    """A day begins so much later, so that the last entries of the day before are in its file."""
    max_bytes: int = 0
    """0: never closed by size."""
    interval_seconds: int = 0
    """Longest time that a file of the engine is written to; 0: until the day ends."""
    per_day: int | None = None
    """Parts a day that may be closed by size."""
    compress: bool = True
    checksums_from: Path | None = None
    """Every part gets a file of checksums, with paths relative to this folder; None: no checksums."""
    keep_days: int = 0
    """Parts of older days are deleted; 0: none."""
    live_is_part: bool = False
    """The live file is a second name of the newest part: parts of today are not closed yet."""

    def full(self, size: int, addition: int = 1) -> bool:
        """Whether a file of ``size`` bytes has no room for ``addition`` more."""
        return bool(self.max_bytes) and size + addition > self.max_bytes


class LogRotation:
    """Rotates one log file by its policy. It has no state: what is due follows from the files."""

    def __init__(self, series: LogSeries, policy: RotationPolicy) -> None:
        self.series = series
        self.policy = policy

    def rotate(self, now: datetime, *, addition: int = 1, wait_seconds: float = 1.0) -> Path | None:
        """Close the current file if it is due at ``now``, local time, or has no room for ``addition`` bytes.

        Returns the part, still to be compressed; None when nothing is due, or when another process has rotated for
        ``wait_seconds``. Raises OSError; then the file stays.
        """
        policy, part = self.policy, None
        if policy.by_day:
            day = (now - timedelta(seconds=policy.day_wait_seconds)).date()
            part = rotate_day(self.series, day, wait_seconds=wait_seconds)
        if part is None and policy.max_bytes:
            limit = policy.max_bytes - addition + 1
            part = rotate_size(self.series, now.date(), limit, per_day=policy.per_day, wait_seconds=wait_seconds)
        return part

    def tidy(self, today: date) -> None:
        """Write checksums, compress and delete what the policy says, as far as it is not done. Raises OSError.

        Can be repeated at any time: each step finds what an interruption has left.
        """
        policy, closed_before = self.policy, today if self.policy.live_is_part else None
        try:
            if policy.checksums_from is not None:  # before the parts are compressed: they are of the plain text
                write_checksums(self.series, policy.checksums_from, before=closed_before)
            if policy.compress:
                compress_parts(self.series, before=closed_before)
        finally:
            purge(self.series, today, policy.keep_days)


def first_day(path: Path) -> date | None:
    """Local day of the first dated entry of ``path``, else of its last change; None: absent or empty."""
    try:
        with _opened(path) as file:
            return _first_day(file.fileno())
    except FileNotFoundError:
        return None


def rotate_day(series: LogSeries, today: date, *, wait_seconds: float = 1.0) -> Path | None:
    """Close the current file when its first entry is of another day; the part carries that day.

    After several silent days that is the day of the first entries. Returns the part, still to be compressed; None when
    nothing is due or another process has rotated for ``wait_seconds``. Raises OSError; then the file stays.
    """

    def target(descriptor: int) -> Path | None:
        day = _first_day(descriptor)
        # Tomorrow is tolerated: the clock may have been set back over midnight.
        if day is None or day == today or day == today + timedelta(days=1):
            return None
        return series.part(day, _free(series, day, 0))

    return _close(series, target, wait_seconds)


def rotate_size(
    series: LogSeries, today: date, limit_bytes: int, *, per_day: int | None = None, wait_seconds: float = 1.0
) -> Path | None:
    """Close the current file when it holds ``limit_bytes`` or more, at most ``per_day`` times a day.

    The part carries ``today`` and the first free number from 1. Returns and raises as :func:`rotate_day` does.
    """

    def target(descriptor: int) -> Path | None:
        size = os.fstat(descriptor).st_size
        if size == 0 or size < limit_bytes:
            return None
        number = _free(series, today, 1)
        return series.part(today, number) if per_day is None or number <= per_day else None

    return _close(series, target, wait_seconds)


def compress_parts(series: LogSeries, *, before: date | None = None) -> list[Path]:
    """Compress the closed parts that are not compressed yet; ``before``: those of earlier days only.

    Returns the compressed files. A part that a writer still holds, or all parts while another process compresses, are
    left for the next run. Raises OSError; then the part stays as it was.
    """
    with _folder_lock(series.archive, wait_seconds=0) as locked:
        if not locked:
            return []
        parts = [part for day, _, part in series.parts() if before is None or day < before]
        plain = [part.with_suffix("") if part.suffix == ".gz" else part for part in parts]
        return [compressed for part in plain if part.exists() and (compressed := _compress(part))]


def purge(series: LogSeries, today: date, keep_days: int) -> list[Path]:
    """Delete parts of days more than ``keep_days`` before ``today``; 0 keeps everything. Returns what was deleted."""
    if keep_days <= 0:
        return []
    oldest = today - timedelta(days=keep_days)
    gone = [path for day, _, path in series.parts() if day < oldest]
    for path in gone:
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in gone}:
        with suppress(OSError):  # not empty: other files keep it
            folder.rmdir()
            folder.parent.rmdir()
    return gone


def _first_day(descriptor: int) -> date | None:
    for match in _FIRST_DAY.finditer(os.pread(descriptor, _HEAD_BYTES, 0)):
        with suppress(ValueError):
            return date(int(match[1]), int(match[2]), int(match[3]))
    status = os.fstat(descriptor)
    return datetime.fromtimestamp(status.st_mtime).date() if status.st_size else None


def _free(series: LogSeries, day: date, number: int) -> int:
    """The first number from ``number`` on whose name no part has."""
    while True:
        part = series.part(day, number)
        if not part.exists() and not part.with_name(part.name + ".gz").exists():
            return number
        number += 1


def _close(series: LogSeries, target: Callable[[int], Path | None], wait_seconds: float) -> Path | None:
    """Rename the current file to the path that ``target`` returns for its descriptor; None: it stays."""
    current = series.current
    if not current.is_file():
        return None
    with _folder_lock(current.parent, wait_seconds) as locked, _opened(current) as file:
        part = target(file.fileno()) if locked else None
        if part is None:
            return None
        series.make_folders(part)
        os.rename(current, part)
        with suppress(PermissionError):  # the file of another user: closed all the same
            os.fchmod(file.fileno(), FILE_MODE)
        sync_folder(part.parent)
        return part


def _opened(path: Path) -> BinaryIO:
    return open(open_regular(path, os.O_RDONLY), "rb")


def _compress(part: Path) -> Path | None:
    target = part.with_name(part.name + ".gz")
    with _opened(part) as file:
        # A writer may still append a record. Once no process holds the lock, none will: the name is not the current
        # one.
        if not _lock(file.fileno(), _WRITERS_SECONDS):
            return None
        fcntl.flock(file, fcntl.LOCK_UN)
        if not target.exists():  # else: interrupted between the last two steps
            _write_gzip(file, target)
    part.unlink()
    sync_folder(part.parent)
    return target


@contextmanager
def _folder_lock(folder: Path, wait_seconds: float) -> Iterator[bool]:
    """Hold ``folder`` against other processes and threads; False when it is absent or stays held."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        yield False
        return
    try:
        yield _lock(descriptor, wait_seconds)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, wait_seconds: float) -> bool:
    """Take the exclusive lock. Not by waiting in the kernel: a stopped holder would stop us too."""
    give_up = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up:
                return False
            time.sleep(_LOCK_PAUSE)
        else:
            return True


def _write_gzip(plain: BinaryIO, target: Path) -> None:
    temporary = target.with_name(f".{target.name}.tmp")  # the lock on the archive makes us its only writer
    status = os.fstat(plain.fileno())
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(temporary, flags, FILE_MODE), "wb") as file:
            inherit_owner(file.fileno(), target.parent)
            os.fchmod(file.fileno(), FILE_MODE)
            with gzip.GzipFile("", "wb", 6, file, mtime=status.st_mtime) as packed:
                shutil.copyfileobj(plain, packed, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
            os.utime(file.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)
