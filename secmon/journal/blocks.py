"""Blocks of the journal: events that were written together, with a checksum that detects a torn one.

A block is a header and a body. Header: magic, length of the body, CRC-32 of all that follows it, number of events,
number of the first event, time of writing in seconds since 1970. Body: the length of each event, then the events.
"""

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

MAGIC = b"SMJ1"
_HEAD = struct.Struct("<4sII")
_REST = struct.Struct("<IQd")
HEADER = _HEAD.size + _REST.size
MAX_BODY = 4 << 20
"""Bytes of the largest body."""


class Block(NamedTuple):
    """Events with the number of the first and the time they were written, in seconds since 1970."""

    first: int
    at: float
    events: list[bytes]

    @property
    def end(self) -> int:
        """Number of the event after the last."""
        return self.first + len(self.events)

    def after(self, number: int) -> "Block":
        """The block without the events before ``number``."""
        skip = max(0, number - self.first)
        return Block(self.first + skip, self.at, self.events[skip:]) if skip else self


class Head(NamedTuple):
    """The fields of a header that are read before the body."""

    size: int
    checksum: int


def encode(first: int, at: float, events: Sequence[bytes]) -> bytes:
    """The bytes of a block. Raises ValueError when its body would exceed ``MAX_BODY``."""
    rest = _REST.pack(len(events), first, at)
    body = struct.pack(f"<{len(events)}I", *map(len, events)) + b"".join(events)
    if len(body) > MAX_BODY:
        raise ValueError("too much for one block")
    return _HEAD.pack(MAGIC, len(body), zlib.crc32(body, zlib.crc32(rest))) + rest + body


def read_head(data: bytes) -> Head | None:
    """The header at the start of ``data``; None if it is incomplete or invalid."""
    if len(data) < HEADER:
        return None
    magic, size, checksum = _HEAD.unpack_from(data)
    return Head(size, checksum) if magic == MAGIC and size <= MAX_BODY else None


def decode(data: bytes) -> Block | None:
    """The block at the start of ``data``; None when it is incomplete or damaged."""
    head = read_head(data)
    if head is None or len(data) < HEADER + head.size:
        return None
    content = memoryview(data)[_HEAD.size : HEADER + head.size]
    if zlib.crc32(content) != head.checksum:
        return None
    count, first, at = _REST.unpack_from(content)
    body = bytes(content[_REST.size :])
    if 4 * count > len(body):
        return None
    lengths = struct.unpack_from(f"<{count}I", body)
    events, position = [], 4 * count
    if position + sum(lengths) != len(body):
        return None
    for length in lengths:
        events.append(body[position : position + length])
        position += length
    return Block(first, at, events)


def pieces(events: Sequence[bytes]) -> list[Sequence[bytes]]:
    """``events`` in pieces that fit a block each. An event is at most 65536 bytes, so no piece is empty."""
    found: list[Sequence[bytes]] = []
    start = size = 0
    for index, event in enumerate(events):
        size += len(event) + 4
        if size > MAX_BODY:
            found.append(events[start:index])
            start, size = index, len(event) + 4
    found.append(events[start:])
    return found
