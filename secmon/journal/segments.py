"""The files of the journal: segments named by their first event, and the positions of its consumers."""

import os
import re
import struct
import zlib
from pathlib import Path

_SEGMENT = re.compile(r"(\d{20})\.events")
_CONSUMER = re.compile(r"([a-z][a-z0-9-]{0,63})\.position")
_POSITION = struct.Struct("<QI")
_TRIES = 10


def segment_path(folder: Path, first: int) -> Path:
    return folder / f"{first:020d}.events"


def list_segments(folder: Path) -> list[int]:
    """Numbers of the first events of all segments, in order."""
    return sorted(int(found[1]) for name in os.listdir(folder) if (found := _SEGMENT.fullmatch(name)))


def consumer_path(folder: Path, name: str) -> Path:
    """Raises ValueError for an invalid name."""
    file = f"{name}.position"
    if not _CONSUMER.fullmatch(file):
        raise ValueError(f"{name!r} cannot name a consumer")
    return folder / file


def consumers(folder: Path) -> dict[str, int | None]:
    """Registered consumers with their offsets; None: the offset could not be read."""
    names = [found[1] for name in os.listdir(folder) if (found := _CONSUMER.fullmatch(name))]
    return {name: read_position(consumer_path(folder, name)) for name in names}


def write_position(descriptor: int, number: int) -> None:
    """Overwrite the number in place: so small a write is atomic for the death of a process."""
    content = number.to_bytes(8, "little")
    os.pwrite(descriptor, _POSITION.pack(number, zlib.crc32(content)), 0)


def read_position(path: Path) -> int | None:
    """The number in the file; None for a file that is empty, damaged or gone."""
    for _ in range(_TRIES):  # a read may see half of a concurrent write
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        if len(data) < _POSITION.size:
            return None
        number, checksum = _POSITION.unpack_from(data)
        if zlib.crc32(int(number).to_bytes(8, "little")) == checksum:
            return int(number)
    return None
