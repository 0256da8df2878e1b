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

from secmon.common.atomic import write_file
from secmon.common.clock import Clock
from secmon.common.errors import os_text
from secmon.config.effects import LINE_FORMATS
from secmon.config.main import MainConfig

log = logging.getLogger("secmon.analysisd")

PERIOD_SECONDS = 2.0
_CHUNK = 1 << 20
_LONGEST = 65_000
"""Bytes of a line; a longer one is cut."""
_MOST_LINES = 10_000
"""Of one file in one round, so that others have their turn."""

Store = Callable[[Sequence[bytes]], Awaitable[None]]


class Place(msgspec.Struct):
    """How far a file was read, and which file that was."""

    device: int
    inode: int
    offset: int


@dataclass(slots=True)
class _Open:
    """A file that is followed. ``place`` is what is stored already."""

    file: int
    place: Place


@dataclass(slots=True)
class Tails:
    """Follows files. What is read counts as read once it is stored."""

    patterns: Sequence[str]
    remembered: Path
    clock: Clock
    store: Store
    lines: int = 0
    cut: int = 0
    _open: dict[str, _Open] = field(default_factory=dict)
    _known: dict[str, Place] = field(default_factory=dict)
    _first: bool = True
    _trouble: dict[str, str] = field(default_factory=dict)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def begin(self) -> None:
        """Open the files: what is written to them from now on is new."""
        await asyncio.to_thread(self._load)
        await asyncio.to_thread(self._look)

    async def run(self) -> None:
        """Follow until :meth:`stop`."""
        while not self._stopping.is_set():
            if not await self.step():
                with suppress(TimeoutError):
                    async with asyncio.timeout(PERIOD_SECONDS):
                        await self._stopping.wait()

    def stop(self) -> None:
        """Let :meth:`run` end when what it has read is stored."""
        self._stopping.set()

    async def step(self) -> bool:
        """One look at all files; whether there is more at once."""
        paths = await asyncio.to_thread(self._look)
        changed = more = False
        for path in paths:
            messages, place = await asyncio.to_thread(self._read, path)
            if not await self._store(messages):
                return False
            one = self._open.get(path)
            if one is not None and one.place.inode == place.inode and one.place != place:  # else: replaced meanwhile
                one.place = self._known[path] = place
                changed = True
            self.lines += len(messages)
            more = more or len(messages) >= _MOST_LINES
        if changed:
            await asyncio.to_thread(self._save)
        return more

    async def _store(self, messages: Sequence[bytes]) -> bool:
        """Wait until the messages are stored; False at a stop: they are read again at the next start."""
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
            self._known = msgspec.json.decode(self.remembered.read_bytes(), type=dict[str, Place])

    def _save(self) -> None:
        try:
            write_file(self.remembered, msgspec.json.encode(self._known))
        except OSError as error:
            log.error("How far local files are read cannot be kept: %s", os_text(error))

    def _look(self) -> list[str]:
        """Open what is new; the files to read."""
        now = self.clock.now().astimezone()
        for pattern in self.patterns:
            wanted = now.strftime(pattern) if "%" in pattern else pattern
            for path in sorted(glob.glob(wanted)) if glob.has_magic(wanted) else [wanted]:
                if path not in self._open:
                    self._begin(path)
        self._first = False
        return list(self._open)

    def _begin(self, path: str) -> None:
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            if self._trouble.get(path) != str(error):
                self._trouble[path] = str(error)
                log.warning("A local file is not read: %s", os_text(error))
            return
        self._trouble.pop(path, None)
        status = os.fstat(file)
        known = self._known.get(path)
        if known is not None and (known.device, known.inode) == (status.st_dev, status.st_ino):
            offset = known.offset if known.offset <= status.st_size else 0
        else:
            # What stood there before the first start is old; what appears later is new from its beginning.
            offset = status.st_size if known is None and self._first else 0
        place = Place(status.st_dev, status.st_ino, offset)
        self._open[path] = _Open(file, place)
        self._known[path] = place

    def _read(self, path: str) -> tuple[list[bytes], Place]:
        """Whole lines that are new, as messages, and the place after them."""
        one = self._open[path]
        place = one.place
        status = os.fstat(one.file)
        offset = place.offset if place.offset <= status.st_size else 0
        data = os.pread(one.file, _CHUNK, offset)
        end = data.rfind(b"\n") + 1
        if not end and len(data) >= _CHUNK:
            end = len(data)
        lines = data[:end].split(b"\n")[:_MOST_LINES] if end else []
        if lines and not lines[-1]:
            lines.pop()
        read = min(end, sum(map(len, lines)) + len(lines))
        if not lines and not self._names(path, status):
            self._replaced(path)
        return [self._message(path, line) for line in lines if line.strip(b"\r")], Place(
            place.device, place.inode, offset + read
        )

    def _names(self, path: str, status: os.stat_result) -> bool:
        """Whether the path still names the file that is open."""
        try:
            return os.path.samestat(os.stat(path), status)
        except OSError:
            return True  # gone for now: whoever holds it may go on writing

    def _replaced(self, path: str) -> None:
        """Another file has the name now, and the old one is read to its end."""
        os.close(self._open.pop(path).file)
        self._begin(path)

    def _message(self, path: str, line: bytes) -> bytes:
        line = line.rstrip(b"\r")
        if len(line) > _LONGEST:
            self.cut += 1
            line = line[:_LONGEST]
        return b"1:%b:%b" % (escape(os.fsencode(path)), line)


def escape(location: bytes) -> bytes:
    """A location as it stands in messages (ruleset.md 4.1)."""
    return location.replace(b"|", b"||").replace(b":", b"|:")


def local_files(config: MainConfig) -> list[str]:
    """Patterns of paths to follow."""
    sections: Any = config.sections.get("localfile", [])
    return [each["location"] for each in (sections if isinstance(sections, list) else [sections]) if followed(each)]


def followed(section: Mapping[str, Any]) -> bool:
    """Whether the files of a ``<localfile>`` section are read."""
    return section.get("log_format", "syslog") in LINE_FORMATS and isinstance(section.get("location"), str)
