"""Search for the next whole block after a damaged one: only the events of the damaged block are lost."""

import os
from typing import NamedTuple

from secmon.journal.blocks import HEADER, MAGIC, Block, decode, read_head

_WINDOW = 1 << 20
_CHECKED = 1 << 30
"""Most bytes to compute checksums of in one search (about a second): events may hold bytes that look like blocks."""


class Found(NamedTuple):
    """A whole block, its offset in the file, and the offset of its end."""

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
    """The first whole block after the damaged one at ``offset`` whose events have the numbers ``first`` or higher.

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
    """The offset of the next block magic at or after ``position``; -1 without one."""
    while len(window := os.pread(file, _WINDOW, position)) >= len(MAGIC):
        at = window.find(MAGIC)
        if at >= 0:
            return position + at
        position += len(window) - len(MAGIC) + 1
    return -1
