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
    """Raises ValueError for a name that is none."""
    file = f"{name}.position"
    if not _CONSUMER.fullmatch(file):
        raise ValueError(f"{name!r} cannot name a consumer")
    return folder / file


def consumers(folder: Path) -> dict[str, int | None]:
    """Registered consumers with the number of the event each wants next; None: it could not be read just now."""
    names = [found[1] for name in os.listdir(folder) if (found := _CONSUMER.fullmatch(name))]
    return {name: read_position(consumer_path(folder, name)) for name in names}


def write_position(descriptor: int, number: int) -> None:
    """Note in place: so small a write is whole or absent, whenever the process dies."""
    content = number.to_bytes(8, "little")
    os.pwrite(descriptor, _POSITION.pack(number, zlib.crc32(content)), 0)


def read_position(path: Path) -> int | None:
    """The number in the file; None for a file that is empty, damaged or gone."""
    for _ in range(_TRIES):  # a reader may see half of a write that is under way
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
