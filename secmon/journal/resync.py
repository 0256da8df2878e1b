"""Finding the next whole block of a segment behind damage: a damaged block costs its own events, no others."""

import os
from typing import NamedTuple

from secmon.journal.blocks import HEADER, MAGIC, Block, decode, read_head

_WINDOW = 1 << 20
_CHECKED = 1 << 30
"""Bytes whose checksum is computed in one search at most (about a second): events may hold what looks like blocks."""


class Found(NamedTuple):
    """A whole block, where it begins, and where the next one does; bytes from the beginning of the file."""

    block: Block
    offset: int
    end: int


def block_at(file: int, offset: int) -> Found | None:
    """The whole block that begins at ``offset``."""
    head = read_head(os.pread(file, HEADER, offset))
    if head is None:
        return None
    end = offset + HEADER + head.size
    block = decode(os.pread(file, end - offset, offset))
    return None if block is None else Found(block, offset, end)


def next_block(file: int, offset: int, first: int) -> Found | None:
    """The first whole block behind the damaged one at ``offset`` whose events are numbered ``first`` or later.

    Where the header of the damaged block says how long it is, the next one is looked for there first, so that no event
    in it can pass for a block.
    """
    head = read_head(os.pread(file, HEADER, offset))
    if head is not None:
        found = block_at(file, offset + HEADER + head.size)
        if found is not None and found.block.first >= first:
            return found
    checked, position = 0, offset
    while checked < _CHECKED and (position := _find_magic(file, position + 1)) >= 0:
        found = block_at(file, position)
        if found is not None and found.block.first >= first:
            return found
        head = read_head(os.pread(file, HEADER, position))
        checked += head.size if head is not None else 0
    return None


def _find_magic(file: int, position: int) -> int:
    """Where the mark of a block begins, at ``position`` or behind it; -1 when nowhere."""
    while len(window := os.pread(file, _WINDOW, position)) >= len(MAGIC):
        at = window.find(MAGIC)
        if at >= 0:
            return position + at
        position += len(window) - len(MAGIC) + 1
    return -1
