"""How far the consumers of a journal are behind, read off its folder alone."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from secmon.journal.segments import consumers, list_segments, segment_path


class Lag(NamedTuple):
    """``events`` and ``size_bytes`` that a consumer has not committed."""

    consumer: str
    events: int
    size_bytes: int


class _Segment(NamedTuple):
    first: int
    end: int
    size_bytes: int


def consumer_lags(folder: Path, end: int) -> list[Lag]:
    """Of each registered consumer whose position can be read; ``end``: number of the next event of the writer.

    The bytes within the segment of a position are in proportion to its events. Blocks. Raises OSError.
    """
    positions = consumers(folder)  # before the segments: what is deleted meanwhile was passed
    segments = _segments(folder, end)
    return [
        Lag(name, max(0, end - position), sum(_unread(each, position) for each in segments))
        for name, position in sorted(positions.items())
        if position is not None
    ]


def stored_bytes(folder: Path) -> int:
    """Bytes of all segments. Blocks. Raises OSError."""
    total = 0
    for first in list_segments(folder):
        with suppress(FileNotFoundError):
            total += segment_path(folder, first).stat().st_size
    return total


def _segments(folder: Path, end: int) -> Sequence[_Segment]:
    firsts = list_segments(folder)
    return list(_sized(folder, firsts, [*firsts[1:], end]))


def _sized(folder: Path, firsts: Sequence[int], ends: Sequence[int]) -> Iterator[_Segment]:
    for first, end in zip(firsts, ends, strict=False):
        with suppress(FileNotFoundError):  # all consumers have passed it meanwhile
            yield _Segment(first, end, segment_path(folder, first).stat().st_size)


def _unread(segment: _Segment, position: int) -> int:
    held, unread = segment.end - segment.first, segment.end - max(position, segment.first)
    return segment.size_bytes * unread // held if unread > 0 else 0
