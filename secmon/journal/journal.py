"""The journal of events: bounded, append-only, in segments; one writer, each reader with its own offset.

Events are numbered from 0. A reader commits the number of the event it wants next; what all readers have passed is
deleted. Without any reader the oldest segments make room for new ones; if a registered reader falls behind,
nothing is deleted: the journal is then :attr:`JournalWriter.full`, and its writer must wait.

Appended events survive the end of the process at any byte. A loss of power may lose the last seconds and never
makes the rest unreadable. A block that the disk has damaged costs its own events.

Not for use by several threads at once.
"""

import fcntl
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.journal.blocks import HEADER, MAX_BODY, Block, encode, pieces, read_head
from secmon.journal.resync import block_at, next_block
from secmon.journal.segments import (
    consumer_path,
    consumers,
    list_segments,
    read_position,
    segment_path,
    write_position,
)

log = logging.getLogger("secmon.events")

_MODE = 0o640
_LIST_EACH = 16
"""Of the looks at the end of a segment, one in so many lists the folder."""


class JournalWriter:
    """Appends events.

    ``limit`` bounds the bytes of all segments together, if nothing is appended while it is :attr:`full`;
    ``segment`` those of each.
    """

    def __init__(self, folder: Path, clock: Clock, *, limit: int, segment: int) -> None:
        """Opens the journal, and cuts off a torn block. Raises SecmonError 1005 when another writer has it, OSError."""
        self._folder = folder
        self._clock = clock
        self._limit = limit
        self._segment = min(segment, limit // 4)  # a segment is deleted as a whole, after the next one was begun
        self.lost = 0
        """Events that went unread to make room."""
        self.full = False
        """A reader is so far behind that the writer must wait; updated by :meth:`make_room`."""
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(folder / "lock")
        self._file = -1
        try:
            self._sizes = {first: segment_path(folder, first).stat().st_size for first in list_segments(folder)}
            self.next = self._recover()
            self.make_room()
        except BaseException:
            self.close()
            raise

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(list(self._sizes.values()))  # a list first: other threads ask too

    def counters(self) -> Mapping[str, Any]:
        """For operators. May be called from any thread."""
        return {"bytes": self.size, "events": self.next, "lost": self.lost, "full": self.full}

    def append(self, events: Sequence[bytes]) -> None:
        """Write ``events``, each of at most 65536 bytes. Raises OSError; nothing of the failed block is kept."""
        for piece in pieces(events) if events else ():
            self._write(encode(self.next, self._clock.now().timestamp(), piece), len(piece))

    def make_room(self) -> None:
        """Delete segments that all readers have passed; without readers, the oldest over the limit. Sets ``full``."""
        wanted = consumers(self._folder)
        known = [number for number in wanted.values() if number is not None]
        unknown = len(known) < len(wanted)  # a consumer is just registering, or its position cannot be read: keep all
        for first, end in pairwise(list(self._sizes)):
            if wanted:
                passed = not unknown and min(known) >= end
            else:
                passed = self.size > self._limit
                self.lost += end - first if passed else 0
            if not passed:
                break
            self._delete(first)
        self.full = bool(wanted) and self.size >= self._limit
        if self.full and not unknown and min(known) >= self.next and self._sizes[self._current]:
            self._start_segment()  # only the current segment is left: it can be deleted once another one is begun

    def close(self) -> None:
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1

    def _write(self, block: bytes, count: int) -> None:
        if self._sizes[self._current] + len(block) > self._segment and self._sizes[self._current]:
            self._start_segment()
        try:
            _write_whole(self._file, block)
        except OSError as error:
            error.filename = str(segment_path(self._folder, self._current))
            with suppress(OSError):  # if even this fails, readers see a torn block and the next start cuts it off
                os.ftruncate(self._file, self._sizes[self._current])
            raise
        self._sizes[self._current] += len(block)
        self.next += count
        if self.size >= self._limit:
            self.make_room()

    def _start_segment(self) -> None:
        os.fdatasync(self._file)
        os.close(self._file)
        self._open(self.next)
        self.make_room()

    def _open(self, first: int) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = -1
        self._file = os.open(segment_path(self._folder, first), flags, _MODE)
        self._sizes.setdefault(first, 0)
        self._current = first

    def _recover(self) -> int:
        """Cut off a torn end and open the current segment. Returns the number of the next event."""
        end = 0
        if self._sizes:
            last = max(self._sizes)
            end, whole = _examine(segment_path(self._folder, last), last)
            if whole < self._sizes[last]:
                log.warning("The journal of events ends in a torn block: %d bytes dropped", self._sizes[last] - whole)
            self._open(last)
            os.ftruncate(self._file, whole)
            self._sizes[last] = whole
        # After a loss of power a reader's position may be beyond the last event: these numbers are not used again.
        beyond = max((number or 0 for number in consumers(self._folder).values()), default=0)
        if beyond > end or not self._sizes:
            if self._file >= 0:
                os.close(self._file)
            end = max(beyond, end)
            self._open(end)
        return end

    def _delete(self, first: int) -> None:
        segment_path(self._folder, first).unlink(missing_ok=True)
        del self._sizes[first]


class JournalReader:
    """A registered consumer: since its registration, nothing that it has not committed is deleted."""

    def __init__(self, folder: Path, name: str) -> None:
        """Registers ``name`` at the oldest event, or continues at its last commit. Raises OSError."""
        self._folder = folder
        self.lost = 0
        """Events that were gone, or damaged, before they were read."""
        path = consumer_path(folder, name)
        folder.mkdir(parents=True, exist_ok=True)
        known = read_position(path)
        self.next = known if known is not None else min(list_segments(folder), default=0)
        """Number of the event that is read next."""
        self._file = -1
        self._first = -1
        self._offset = 0
        self._number = 0  # of the event that the block at the offset begins with
        self._looks = -1  # at the end of this segment, before the next one
        self._searched = (-1, -1)  # offset and size of a segment in which no further block was found
        self._position = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            self.commit(self.next)
        except BaseException:
            self.close()
            raise

    def read(self, *, limit: int = 1 << 20) -> list[Block]:
        """The next blocks, at least one and of about ``limit`` bytes together; empty when there are no more yet.

        Raises OSError; blocks before a fault are returned first.
        """
        found: list[Block] = []
        size = 0
        try:
            while size < limit and (block := self._next_block()) is not None:
                found.append(block)
                size += sum(map(len, block.events))
        except OSError:
            if not found:
                raise
        return found

    def unread(self) -> int:
        """The approximate number of unread bytes. Raises OSError."""
        first, offset = self._first, self._offset
        sizes = {each: segment_path(self._folder, each).stat().st_size for each in list_segments(self._folder)}
        return max(0, sum(size for each, size in sizes.items() if each >= first) - (offset if first in sizes else 0))

    def commit(self, number: int) -> None:
        """Commit all events before ``number``: they may be deleted."""
        write_position(self._position, number)

    def close(self) -> None:
        """Close the files. The consumer stays registered: another reader of this name continues."""
        self._leave()
        os.close(self._position)

    def _next_block(self) -> Block | None:
        while True:
            if self._file < 0 and not self._enter():
                return None
            block = self._read_block()
            if block is None:
                newer = self._newer()
                # Once another segment follows, this one is complete: a block that cannot be read now is damaged.
                block = self._read_block() or self._resynchronise(newer)
                if block is None and newer is None:
                    return None
                if block is None:
                    self._leave()
                    self._passed(max(newer or 0, self.next))
                    continue
            if block.end > self.next:
                self._passed(max(block.first, self.next))
                block = block.after(self.next)
                self.next = block.end
                return block

    def _newer(self) -> int | None:
        """The first event of a segment after this one.

        It is named by the event after the last block here, unless blocks were lost: :data:`_LIST_EACH`.
        """
        self._looks += 1
        if self._looks % _LIST_EACH and self._offset >= os.fstat(self._file).st_size:
            following = self._number
            return following if following > self._first and segment_path(self._folder, following).exists() else None
        return next((first for first in list_segments(self._folder) if first > self._first), None)

    def _passed(self, number: int) -> None:
        self.lost += number - self.next
        self.next = number

    def _enter(self) -> bool:
        """Open the segment that holds the next event, or the first one after it."""
        segments = list_segments(self._folder)
        containing = [first for first in segments if first <= self.next][-1:] or segments[:1]
        if not containing:
            return False
        try:
            self._file = os.open(segment_path(self._folder, containing[0]), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        self._first = self._number = containing[0]
        self._offset, self._looks = 0, -1
        return True

    def _leave(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _read_block(self) -> Block | None:
        found = block_at(self._file, self._offset)
        if found is None:
            return None
        self._offset, self._number = found.end, found.block.end
        return found.block

    def _resynchronise(self, newer: int | None) -> Block | None:
        """The next whole block after a damaged one. With a ``newer`` segment, this one is complete."""
        size = os.fstat(self._file).st_size
        if self._offset >= size or self._searched == (self._offset, size):
            return None
        block = self._read_block()
        if block is not None:  # it was written since the last look
            return block
        head = read_head(os.pread(self._file, HEADER, self._offset))
        if newer is None and (size - self._offset < HEADER or (head and self._offset + HEADER + head.size > size)):
            return None  # it may be a write in progress; an event in it must not pass for a block
        found = next_block(self._file, self._offset, self._number)
        if found is None and newer is None:
            self._searched = (self._offset, size)
            return None
        following = found.block.first if found else newer or 0
        if following > self.next:  # otherwise an earlier process has skipped and logged it
            log.error(
                "%s is damaged at offset %d: %d bytes cannot be read, and %d events in them",
                segment_path(self._folder, self._first),
                self._offset,
                (found.offset if found else size) - self._offset,
                following - self._number,
            )
        if found is None:
            return None
        self._offset, self._number = found.end, found.block.end
        return found.block


def _examine(path: Path, first: int) -> tuple[int, int]:
    """The number of the event after the last whole block of a segment, and the offset of that block's end."""
    number = offset = 0
    with path.open("rb") as file:
        descriptor, number = file.fileno(), first
        while (found := block_at(descriptor, offset) or next_block(descriptor, offset, number)) is not None:
            number, offset = found.block.end, found.end
    return number, offset


def _write_whole(file: int, data: bytes) -> None:
    """Raises OSError. A full disk takes a part of the bytes; the write of the rest raises the error."""
    while data:
        data = data[os.write(file, data) :]


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise SecmonError(1005, f"another process writes the journal {path.parent}") from error
    return descriptor


__all__ = ["MAX_BODY", "Block", "JournalReader", "JournalWriter"]
