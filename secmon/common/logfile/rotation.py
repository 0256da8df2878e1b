"""Rotation of log files: close, name, compress, delete (manager.md 12.4, conventions.md 12.2, cluster.md 7.3).

A file is closed in two steps, so that an interruption at any point loses nothing: it is renamed to its final name
without ``.gz``, then, when the last writer has let go of it, compressed aside and removed. What an interruption leaves
is an uncompressed file with a final name; :func:`finish` of the next run completes it. No final name is used twice.

Locks: who renames holds the folder of the current file, who compresses the archive folder, so that two processes never
do the same. Neither waits for the other, and writers (``append_file``) wait for neither.
"""

import calendar
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
from secmon.common.paths import Paths

FILE_MODE, FOLDER_MODE = 0o640, 0o750
_MONTHS = tuple(calendar.month_abbr)  # fixed at import, before anything can set a locale: Jan..Dec
_FIRST_DAY = re.compile(rb'^(?:\{"timestamp": ?")?(\d{4})/(\d\d)/(\d\d) ', re.M)
_HEAD_BYTES = 8192
_LOCK_PAUSE = 0.005  # seconds between attempts
_WRITERS_SECONDS = 1.0  # how long to wait for records on their way; they take microseconds


@dataclass(frozen=True)
class LogSeries:
    """A log file and the names of its closed parts: ``<archive>/<YYYY>/<Mon>/<stem><DD>[<separator><N>]<suffix>``."""

    current: Path
    archive: Path
    stem: str
    suffix: str = ""
    separator: str = "_"
    digits: int = 1

    def part(self, day: date, number: int = 0) -> Path:
        """Path of a closed part before compression; ``number`` 0 has no number in its name."""
        tail = f"{self.separator}{number:0{self.digits}d}" if number else ""
        name = f"{self.stem}{day.day:02d}{tail}{self.suffix}"
        return self.archive / f"{day.year:04d}" / _MONTHS[day.month] / name

    def parts(self) -> list[tuple[date, int, Path]]:
        """Closed parts, oldest first: day, number, path as it is (``.gz`` or not).

        A day's part without number closes the day, so it comes after the numbered ones. A part that exists in both
        forms (interrupted compression) comes once, compressed.
        """
        pattern = re.compile(
            rf"{re.escape(self.stem)}(\d\d)(?:{re.escape(self.separator)}(\d{{1,9}}))?{re.escape(self.suffix)}(\.gz)?"
        )
        found: dict[tuple[date, int], Path] = {}
        for year, month, folder in self._folders():
            for name in sorted(os.listdir(folder)):  # the compressed form of a name follows the plain one
                match = pattern.fullmatch(name)
                if match and 1 <= int(match[1]) <= calendar.monthrange(year, month)[1]:
                    found[date(year, month, int(match[1])), int(match[2] or 0)] = folder / name
        last = 10**9
        return [(*key, found[key]) for key in sorted(found, key=lambda key: (key[0], key[1] or last))]

    def _folders(self) -> Iterator[tuple[int, int, Path]]:
        for year in self.archive.glob("[0-9][0-9][0-9][0-9]"):
            for month in range(1, 13):
                folder = year / _MONTHS[month]
                if int(year.name) > 0 and folder.is_dir():
                    yield int(year.name), month, folder


def daemon_series(paths: Paths) -> tuple[LogSeries, LogSeries]:
    """``logs/ossec.log`` and ``logs/ossec.json``."""
    folder = paths.logs / "secmon"
    return (
        LogSeries(paths.logs / "ossec.log", folder, "ossec-", ".log", "-", 3),
        LogSeries(paths.logs / "ossec.json", folder, "ossec-", ".json", "-", 3),
    )


def cluster_series(paths: Paths) -> LogSeries:
    """``logs/cluster.log``."""
    return LogSeries(paths.logs / "cluster.log", paths.logs / "cluster", "cluster.log-")


def api_series(paths: Paths) -> tuple[LogSeries, LogSeries]:
    """``logs/api.log`` and ``logs/api.json``."""
    folder = paths.logs / "api"
    return (
        LogSeries(paths.logs / "api.log", folder, "api.log-"),
        LogSeries(paths.logs / "api.json", folder, "api.json-"),
    )


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
    nothing is due or another process is at it for ``wait_seconds``. Raises OSError; then the file stays.
    """

    def target(descriptor: int) -> Path | None:
        day = _first_day(descriptor)
        # Tomorrow is tolerated: the clock may have been set back over midnight.
        if day is None or day == today or day == today + timedelta(days=1):
            return None
        return series.part(day, _free(series, day, 0))

    return _close(series.current, target, wait_seconds)


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

    return _close(series.current, target, wait_seconds)


def finish(series: LogSeries, *, before: date | None = None) -> list[Path]:
    """Compress every closed part that is not: what :func:`rotate_day` just closed or an interruption left.

    ``before``: of earlier days only, where the file of the day is among the parts.
    Returns the compressed files; a part that a writer still holds, or all when another process is at it, are left for
    the next run. Raises OSError; then the part stays as it was.
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


def _close(current: Path, target: Callable[[int], Path | None], wait_seconds: float) -> Path | None:
    """Rename ``current`` to what ``target`` says of its descriptor."""
    if not current.is_file():
        return None
    with _folder_lock(current.parent, wait_seconds) as locked, _opened(current) as file:
        part = target(file.fileno()) if locked else None
        if part is None:
            return None
        _make_folders(part.parent)
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


def _make_folders(folder: Path) -> None:
    """``folder``, the year's and the archive above it, with their mode and owner whatever umask and user."""
    for path in (folder.parent.parent, folder.parent, folder):
        try:
            path.mkdir(FOLDER_MODE)
        except FileExistsError:
            continue
        inherit_owner(path, path.parent)
        path.chmod(FOLDER_MODE)
