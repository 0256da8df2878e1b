"""Log files of the manager itself: ``<localfile>`` sections whose files hold one event a line."""

import asyncio
import glob
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from secmon.common.clock import Clock
from secmon.common.errors import os_text
from secmon.common.file_io import write_file
from secmon.config.effects import LINE_FORMATS
from secmon.config.main import MainConfig
from secmon.engine.input.file_counters import LocalFileCounters

log = logging.getLogger("secmon.analysisd")

PERIOD_SECONDS = 2.0
_CHUNK = 1 << 20
_MAX_LINE = 65_000
"""Bytes of a line; longer ones are cut."""
_MAX_LINES = 10_000
"""Lines of one file in one round, so that other files are read too."""

Store = Callable[[Sequence[bytes]], Awaitable[None]]


class FilePosition(msgspec.Struct):
    """How far a file was read, and its identity."""

    device: int
    inode: int
    offset: int


@dataclass(slots=True)
class _FollowedFile:
    """A file that is followed, and the position up to which its lines are stored."""

    file: int
    position: FilePosition


@dataclass(slots=True)
class LocalFileFollower:
    """Follows files. A position advances when the lines before it are stored."""

    patterns: Sequence[str]
    positions_file: Path
    clock: Clock
    store: Store
    counters: LocalFileCounters
    lines: int = 0
    cut: int = 0
    _open: dict[str, _FollowedFile] = field(default_factory=dict)
    _known: dict[str, FilePosition] = field(default_factory=dict)
    _first_scan: bool = True
    _errors: dict[str, str] = field(default_factory=dict)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def begin(self) -> None:
        """Open the files; only lines written from now on are read."""
        await asyncio.to_thread(self._load)
        await asyncio.to_thread(self._open_new)

    async def run(self) -> None:
        """Follow until :meth:`stop`."""
        while not self._stopping.is_set():
            if not await self.step():
                with suppress(TimeoutError):
                    async with asyncio.timeout(PERIOD_SECONDS):
                        await self._stopping.wait()

    def stop(self) -> None:
        """End :meth:`run` when the lines that it has read are stored."""
        self._stopping.set()

    async def step(self) -> bool:
        """Read all files once; whether there is more to read at once."""
        paths = await asyncio.to_thread(self._open_new)
        changed = more = False
        for path in paths:
            before = self._open[path].position.offset
            messages, position = await asyncio.to_thread(self._read, path)
            if not await self._store(messages):
                return False
            cut = position.offset < before
            self.counters.add(path, len(messages), position.offset - (0 if cut else before))
            one = self._open.get(path)
            if (
                one is not None and one.position.inode == position.inode and one.position != position
            ):  # else: replaced meanwhile
                one.position = self._known[path] = position
                changed = True
            self.lines += len(messages)
            more = more or len(messages) >= _MAX_LINES
        if changed:
            await asyncio.to_thread(self._save)
        return more

    async def _store(self, messages: Sequence[bytes]) -> bool:
        """Wait until the messages are stored; False at a stop: the next start reads them again."""
        while True:
            try:
                await self.store(messages)
            except BlockingIOError:
                if self._stopping.is_set():
                    return False
                await asyncio.sleep(PERIOD_SECONDS / 10)
            else:
                return True

    def close(self) -> None:
        for one in self._open.values():
            os.close(one.file)
        self._open.clear()

    def _load(self) -> None:
        with suppress(FileNotFoundError, msgspec.MsgspecError):
            self._known = msgspec.json.decode(self.positions_file.read_bytes(), type=dict[str, FilePosition])

    def _save(self) -> None:
        try:
            write_file(self.positions_file, msgspec.json.encode(self._known))
        except OSError as error:
            log.error("The positions in local files cannot be saved: %s", os_text(error))

    def _open_new(self) -> list[str]:
        """Open new files; the paths to read."""
        now = self.clock.now().astimezone()
        for pattern in self.patterns:
            wanted = now.strftime(pattern) if "%" in pattern else pattern
            for path in sorted(glob.glob(wanted)) if glob.has_magic(wanted) else [wanted]:
                if path not in self._open:
                    self._follow(path)
        self._first_scan = False
        return list(self._open)

    def _follow(self, path: str) -> None:
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            if self._errors.get(path) != str(error):
                self._errors[path] = str(error)
                log.warning("A local file is not read: %s", os_text(error))
            return
        self._errors.pop(path, None)
        status = os.fstat(file)
        known = self._known.get(path)
        if known is not None and (known.device, known.inode) == (status.st_dev, status.st_ino):
            offset = known.offset if known.offset <= status.st_size else 0
        else:
            # Lines from before the first start are skipped; files that appear later are read from their beginning.
            offset = status.st_size if known is None and self._first_scan else 0
        position = FilePosition(status.st_dev, status.st_ino, offset)
        self._open[path] = _FollowedFile(file, position)
        self._known[path] = position

    def _read(self, path: str) -> tuple[list[bytes], FilePosition]:
        """New whole lines as messages, and the position after them."""
        one = self._open[path]
        position = one.position
        status = os.fstat(one.file)
        offset = position.offset if position.offset <= status.st_size else 0
        data = os.pread(one.file, _CHUNK, offset)
        end = data.rfind(b"\n") + 1
        if not end and len(data) >= _CHUNK:
            end = len(data)
        lines = data[:end].split(b"\n")[:_MAX_LINES] if end else []
        if lines and not lines[-1]:
            lines.pop()
        read = min(end, sum(map(len, lines)) + len(lines))
        if not lines and not self._names(path, status):
            self._replaced(path)
        return [self._message(path, line) for line in lines if line.strip(b"\r")], FilePosition(
            position.device, position.inode, offset + read
        )

    def _names(self, path: str, status: os.stat_result) -> bool:
        """Whether the path still names the file that is open."""
        try:
            return os.path.samestat(os.stat(path), status)
        except OSError:
            return True  # removed for now: the program that holds it may still write to it

    def _replaced(self, path: str) -> None:
        """Follow the new file of this name; the old one is read to its end."""
        os.close(self._open.pop(path).file)
        self._follow(path)

    def _message(self, path: str, line: bytes) -> bytes:
        line = line.rstrip(b"\r")
        if len(line) > _MAX_LINE:
            self.cut += 1
            line = line[:_MAX_LINE]
        return b"1:%b:%b" % (escape(os.fsencode(path)), line)


def escape(location: bytes) -> bytes:
    """A location as messages carry it (ruleset.md 4.1)."""
    return location.replace(b"|", b"||").replace(b":", b"|:")


def local_files(config: MainConfig) -> list[str]:
    """Patterns of paths to follow."""
    sections: Any = config.sections.get("localfile", [])
    return [each["location"] for each in (sections if isinstance(sections, list) else [sections]) if followed(each)]


def followed(section: Mapping[str, Any]) -> bool:
    """Whether the files of a ``<localfile>`` section are read."""
    return section.get("log_format", "syslog") in LINE_FORMATS and isinstance(section.get("location"), str)
