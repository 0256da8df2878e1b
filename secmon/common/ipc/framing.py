"""Frames: a 32-bit little-endian length, then that many bytes.

All calls between processes of a node have this framing, and the public socket of the log test (analysis-api.md 6.4).
"""

import asyncio
import errno
from collections.abc import Iterator
from struct import Struct

_LENGTH = Struct("<I")


class FrameTooLong(OSError):
    """A frame that is longer than its reader accepts. What follows it cannot be read."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(errno.EMSGSIZE, f"a frame of {size} bytes; at most {limit} are accepted")


def frame(payload: bytes) -> bytes:
    """``payload`` (less than 4 GiB) with its length in front."""
    return _LENGTH.pack(len(payload)) + payload


def take_frames(received: bytearray) -> Iterator[bytes]:
    """The payloads of the frames that are complete in ``received``, which keeps the rest."""
    start = 0
    while len(received) - start >= _LENGTH.size:
        end = start + _LENGTH.size + _LENGTH.unpack_from(received, start)[0]
        if len(received) < end:
            break
        yield bytes(memoryview(received)[start + _LENGTH.size : end])
        start = end
    del received[:start]


async def read_frame(reader: asyncio.StreamReader, limit: int) -> bytes | None:
    """The payload of the next frame; ``None`` when the stream ends between two frames.

    Raises FrameTooLong for one of more than ``limit`` bytes, ConnectionResetError when the stream ends within a frame.
    """
    try:
        size = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))[0]
        if size > limit:
            raise FrameTooLong(size, limit)
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError as error:
        if not error.partial and error.expected == _LENGTH.size:
            return None
        raise ConnectionResetError("the connection ended within a frame") from None
