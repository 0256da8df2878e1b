"""Lines of files from the last to the first, within bounds."""

import gzip
import os
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

MAX_LINE = 1 << 19
"""Bytes of one line; the rest of a longer one is left out."""

_BLOCK = 1 << 17
_INFLATE_BLOCK = 1 << 20


@dataclass
class Budget:
    """What may still be read: bytes of text, physical lines, and bytes of compressed files' content."""

    text_bytes: int
    lines: int
    inflated_bytes: int

    @property
    def spent(self) -> bool:
        return self.text_bytes <= 0 or self.lines <= 0


def plain_lines(descriptor: int, budget: Budget) -> Iterator[bytes]:
    """Whole lines of an open file, last first, without their line feeds. Raises OSError."""
    yield from _lines(_file_blocks(descriptor, budget), budget)


def gzip_lines(file: IO[bytes], budget: Budget) -> Iterator[bytes]:
    """Whole lines of the content of a compressed file, last first.

    Compressed data can only be read from its beginning, so the end of the content is held in memory, as far as
    ``budget.text_bytes`` goes. A damaged file yields the content before the damage; one whose content is larger than
    ``budget.inflated_bytes`` yields nothing and spends the budget.
    """
    chunks, complete = _tail(file, budget)
    yield from _lines(_chunk_blocks(chunks, complete, budget), budget)


def _file_blocks(descriptor: int, budget: Budget) -> Iterator[tuple[bytes, bool]]:
    """Blocks from the end, each with whether the file begins with it."""
    end = os.fstat(descriptor).st_size
    while end > 0 and budget.text_bytes > 0:
        start = max(0, end - min(_BLOCK, budget.text_bytes))
        block = os.pread(descriptor, end - start, start)
        budget.text_bytes -= len(block)
        yield block, start == 0
        end = start


def _chunk_blocks(chunks: deque[bytes], complete: bool, budget: Budget) -> Iterator[tuple[bytes, bool]]:
    while chunks and budget.text_bytes > 0:
        block = chunks.pop()
        whole = len(block) <= budget.text_bytes
        block = block if whole else block[-budget.text_bytes :]
        budget.text_bytes -= len(block)
        yield block, complete and whole and not chunks


def _tail(file: IO[bytes], budget: Budget) -> tuple[deque[bytes], bool]:
    """The end of the content, in order, and whether that is all of it."""
    chunks: deque[bytes] = deque()
    held, complete = 0, True
    with gzip.GzipFile(fileobj=file) as content:
        while True:
            try:
                chunk = content.read1(_INFLATE_BLOCK)
            except (EOFError, OSError, zlib.error):
                break
            if not chunk:
                break
            budget.inflated_bytes -= len(chunk)
            if budget.inflated_bytes < 0:
                budget.text_bytes = 0
                return deque(), False
            chunks.append(chunk)
            held += len(chunk)
            while held - len(chunks[0]) > budget.text_bytes:
                held -= len(chunks.popleft())
                complete = False
    return chunks, complete


def _lines(blocks: Iterable[tuple[bytes, bool]], budget: Budget) -> Iterator[bytes]:
    carry, ended, complete = b"", False, False
    for block, at_start in blocks:
        complete = at_start
        pieces = block.split(b"\n")
        pieces[-1] = (pieces[-1] + carry)[:MAX_LINE]
        carry = pieces[0][:MAX_LINE]
        if not ended and len(pieces) > 1:
            ended = True
            pieces.pop()  # what follows the last line feed: nothing, or a record that is being written
        for index in range(len(pieces) - 1, 0, -1):
            if budget.lines <= 0:
                return
            budget.lines -= 1
            yield pieces[index][:MAX_LINE]
    if ended and complete and budget.lines > 0:  # else the beginning of this line has not been read
        budget.lines -= 1
        yield carry
