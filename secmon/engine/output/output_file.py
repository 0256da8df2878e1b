"""One output of the engine: a live file that is a second name of the file of the day (ruleset.md 9.3)."""

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path

from secmon.common.file_io import sync_folder
from secmon.common.logfile.append_file import inherit_owner
from secmon.common.logfile.line_ends import missing_end
from secmon.common.logfile.log_series import FILE_MODE, LogSeries
from secmon.common.logfile.rotation import RotationPolicy


class OutputFile:
    """Collects records and appends them at :meth:`flush`. One process writes, in one thread."""

    def __init__(
        self,
        series: LogSeries,
        policy: RotationPolicy,
        *,
        ending: bytes = b"\n",
        on_cut: Callable[[Path, int], None],
    ) -> None:
        """``ending`` of every record; ``on_cut`` gets a file whose last record was cut, and its size."""
        self.path = series.part(date.min)
        """The file of the day; kept, because an idle engine looks for it 50 times a second."""
        self._series = series
        self._policy = policy
        self._ending = ending
        self._on_cut = on_cut
        self._file = -1
        self._written = 0
        self._pending: list[bytes] = []
        self._waiting = 0
        self._day = date.min
        self._number = 0
        self._opened = datetime.min
        self._identity = (0, 0)

    @property
    def end(self) -> int:
        """Where the next record begins, in bytes."""
        return self._written + self._waiting

    @property
    def waiting(self) -> int:
        """Bytes not written yet."""
        return self._waiting

    def add(self, record: bytes) -> None:
        self._pending.append(record)
        self._waiting += len(record)

    def rotate_due(self, now: datetime) -> None:
        """Open the file of ``now``, local time, if it is another one. Everything must be flushed. Raises OSError."""
        today = now.date()
        if self._file < 0:
            self._open(today, self._series.last_number(today), now)
        elif today != self._day:
            self._close_day()
            self._open(today, self._series.last_number(today), now)
        elif not self._in_place():
            self._open(today, self._number, now)
        elif self._written and self._due(now):
            number = self._series.last_number(today) + 1
            self._close_day()
            self._open(today, number, now)

    def flush(self) -> None:
        """Write all collected records. Raises OSError; bytes that are not written stay collected."""
        if not self._pending:
            return
        data = b"".join(self._pending)
        view = memoryview(data)
        try:
            while view:
                written = os.write(self._file, view)
                self._written += written
                view = view[written:]
        finally:
            rest = bytes(view)
            self._pending, self._waiting = [rest] if rest else [], len(rest)

    def close(self) -> None:
        """Close the file; records that are not flushed are dropped."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _due(self, now: datetime) -> bool:
        """Whether the file is closed within its day."""
        interval = self._policy.interval_seconds
        old = bool(interval) and (now - self._opened).total_seconds() >= interval
        return old or self._policy.full(self._written)

    def _close_day(self) -> None:
        """Close this file; an empty one is removed."""
        self.close()
        if not self._written:
            self.path.unlink(missing_ok=True)

    def _in_place(self) -> bool:
        """Whether both names still name the open file."""
        try:
            live, dated = os.stat(self._series.current), os.stat(self.path)
        except FileNotFoundError:
            return False
        return _same(live) == self._identity and _same(dated) == self._identity

    def _open(self, day: date, number: int, now: datetime) -> None:
        path = self._series.part(day, number)
        self._series.make_folders(path)
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            inherit_owner(file, self._series.archive)
            size = self._end_cut_record(file, path)
            self._link(path)
        except BaseException:
            os.close(file)
            raise
        self.close()
        self.path, self._file, self._written = path, file, size
        self._day, self._number, self._opened = day, number, now
        self._identity = _same(os.fstat(file))

    def _end_cut_record(self, file: int, path: Path) -> int:
        """End a record that a crash or a full disk cut, so that the next one starts a line; the size."""
        missing = missing_end(file, self._ending)
        if missing:
            self._on_cut(path, os.fstat(file).st_size)
            os.write(file, missing)
        return os.fstat(file).st_size

    def _link(self, path: Path) -> None:
        """Make the live name a link to the file of the day, atomically."""
        current = self._series.current
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(current), os.stat(path)):
                return
        aside = current.with_name(f".{current.name}.{secrets.token_hex(4)}.tmp")
        os.link(path, aside)
        try:
            os.replace(aside, current)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        sync_folder(current.parent)


def _same(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
