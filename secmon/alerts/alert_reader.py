"""The alerts of this node in the order of their files: over days, rotations and compression (ruleset.md 9.3).

The engine writes one file after the other. The live name is a link to the newest, files of past days are compressed by
their final names. A file that is open is read to its end, also when it was compressed or removed meanwhile.
"""

import gzip
import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from msgspec import Struct

from secmon.common.logfile.log_series import LogSeries

CHUNK = 1 << 18
"""Bytes that are read at a time; more where one line is longer."""
MAX_LINE = 16 << 20
"""A longer line is passed over: no event becomes one."""

Part = tuple[date, int]
"""Day and number of a file. 0 is the first of its day."""


class Position(Struct, frozen=True):
    """What is read next: the byte ``offset`` in the file of ``day`` with this ``number``.

    ``ends``: how far earlier files were read, by part name; for a clock that is set back over midnight.
    """

    day: date = date.min
    number: int = 0
    offset: int = 0
    ends: dict[str, int] = {}

    @property
    def part(self) -> Part:
        return self.day, self.number

    def at(self, offset: int) -> "Position":
        """Another place in the same file."""
        return Position(self.day, self.number, offset, self.ends)


class Line(NamedTuple):
    """A line without its end; ``offset`` is its first byte in the plain file."""

    data: bytes
    offset: int


class AlertReader:
    """Reads from a position on. Everything blocks; for one thread at a time."""

    def __init__(self, series: LogSeries, position: Position | None) -> None:
        """``position`` None: only what is written from now on. Raises OSError."""
        self._series = series
        self._file: BinaryIO | None = None
        self._identity = (0, 0)
        self._size = -1
        """Of the file when it was read to its end: while it is the same, there is nothing new."""
        self.lost_files = 0
        """Files that were gone, or cut, before they were read to their end."""
        self.skipped = 0
        """Lines that were too long or had no end."""
        self.position = self._newest() if position is None else position

    def idle(self) -> bool:
        """Whether there is surely nothing new: two calls to the system."""
        if self._file is None or os.fstat(self._file.fileno()).st_size != self._size:
            return False
        try:
            return _identity(os.stat(self._series.current)) == self._identity
        except FileNotFoundError:
            return True

    def read(self) -> list[Line]:
        """The next lines, about ``CHUNK`` bytes, in one file; empty when there are none. Raises OSError.

        :attr:`position` is after them then.
        """
        while True:
            if self._file is None and not self._enter():
                return []
            if lines := self._lines():
                return lines
            following = self._following()
            if lines := self._lines():  # written before the next file was begun
                return lines
            if following is None:
                return []
            self._leave(following)

    def unread(self, since: Position | None = None) -> int:
        """Bytes after ``since``, or after what was read; compressed ones as they are. Raises OSError."""
        since = since or self.position
        known = [(part, path) for part, path in self._parts() if part >= since.part]
        sizes = sum(_size(path) for _, path in known)
        plain = any(part == since.part and path.suffix != ".gz" for part, path in known)
        return max(0, sizes - (since.offset if plain else 0))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _newest(self) -> Position:
        """The end of the newest file."""
        parts = list(self._parts())
        if not parts:
            return Position()
        (day, number), path = parts[-1]
        return Position(day, number, _size(path)) if path.suffix != ".gz" else Position(day, number + 1)

    def _parts(self) -> Iterator[tuple[Part, Path]]:
        """Files in the order in which they were written: the one without a number is the first of its day."""
        return iter(sorted(((day, number), path) for day, number, path in self._series.parts()))

    def _enter(self) -> bool:
        """Open the file of the position, or the next one that exists; False without any."""
        position = self.position
        if self._open(position):
            return True
        found = next((part for part, _ in self._parts() if part > position.part), None)
        if found is None:
            return False
        if position.offset:
            self.lost_files += 1
        self.position = self._start(found)
        return self._open(self.position)

    def _open(self, position: Position) -> bool:
        file = _opened(self._series.part(position.day, position.number))
        if file is None:
            return False
        status = os.fstat(file.fileno())
        self._file, self._size = file, -1
        self._identity = (0, 0) if isinstance(file, gzip.GzipFile) else _identity(status)
        if status.st_size < position.offset and not isinstance(file, gzip.GzipFile):
            self._cut()
        return True

    def _cut(self) -> None:
        self.lost_files += 1
        self.position = self.position.at(0)

    def _lines(self) -> list[Line]:
        assert self._file is not None, "opened first"
        offset, size = self.position.offset, CHUNK
        before = os.fstat(self._file.fileno()).st_size  # first: what is written after the read must be noticed
        while True:
            self._file.seek(offset)
            data = self._file.read(size)
            end = data.rfind(b"\n") + 1
            if end or len(data) < size:
                break
            if size >= MAX_LINE:
                return self._pass_over(offset + size)
            size *= 2
        if not end:
            self._size = before
            if before < offset and not isinstance(self._file, gzip.GzipFile):
                self._cut()
                self._size = -1
            return []
        lines = []
        for line in data[: end - 1].split(b"\n"):
            lines.append(Line(line, offset))
            offset += len(line) + 1
        self.position = self.position.at(offset)
        return lines

    def _pass_over(self, offset: int) -> list[Line]:
        """Go on after the end of a line that is too long; it has none yet where the file ends."""
        assert self._file is not None, "opened first"
        self.skipped += 1
        while data := self._file.read(CHUNK):
            found = data.find(b"\n") + 1
            offset += found or len(data)
            if found:
                break
        self.position = self.position.at(offset)
        return self._lines()

    def _following(self) -> Part | None:
        """The file that was begun after this one."""
        try:
            live = _identity(os.stat(self._series.current))
        except FileNotFoundError:
            live = None
        if live == self._identity:
            return None
        parts = list(self._parts())
        later = next((part for part, _ in parts if part > self.position.part), None)
        newest = next((part for part, path in reversed(parts) if _is(path, live)), None)
        if newest is not None and newest < self.position.part:
            return newest  # the clock was set back
        return later

    def _leave(self, following: Part) -> None:
        assert self._file is not None, "opened first"
        self._file.seek(self.position.offset)
        if self._file.read(1):
            self.skipped += 1  # a line that a crash has cut off
        self.close()
        self.position = self._start(following)

    def _start(self, part: Part) -> Position:
        """Where ``part`` is read from; what was read of this file is remembered."""
        position, (day, number) = self.position, part
        ends = dict(list(position.ends.items())[-3:]) | {_name(position.part): position.offset}
        return Position(day, number, ends.pop(_name(part), 0), ends)


def _opened(plain: Path) -> BinaryIO | None:
    """The file, which may be compressed by now."""
    try:
        return open(plain, "rb", buffering=0)
    except FileNotFoundError:
        pass
    try:
        return cast("BinaryIO", gzip.open(plain.with_name(plain.name + ".gz"), "rb"))
    except FileNotFoundError:
        return None


def _name(part: Part) -> str:
    return f"{part[0].isoformat()}-{part[1]:03d}"


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is(path: Path, identity: tuple[int, int] | None) -> bool:
    try:
        return _identity(os.stat(path)) == identity
    except FileNotFoundError:
        return False


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
