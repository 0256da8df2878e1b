"""Several calls on one connection to the cluster daemon: what is in the frames of :mod:`secmon.common.ipc.framing`.

A frame begins with the number of its call and its kind. The daemon sends HELLO first: it does not hang. It sends BYE
when it stops: calls in flight are finished, the caller sends others on a new connection and closes this one.
A call begins with CALL: the seconds it may take, NaN for no limit, and the bytes of an ``ExecuteRequest``. CHUNK frames
carry ``ExecuteChunk`` messages, END follows the last one. The caller ends a call early with CANCEL.
"""

import asyncio
import math
import struct
from collections.abc import AsyncIterator
from enum import IntEnum
from typing import NamedTuple

from secmon.common.ipc.framing import frame, read_frame

MAX_FRAME_BYTES = 65 * 1024 * 1024
"""Of one frame: an upload travels whole."""

_HEADER = struct.Struct("<IB")
_SECONDS = struct.Struct("<d")


class Kind(IntEnum):
    """What a frame is."""

    CALL = 1
    CANCEL = 2
    CHUNK = 3
    END = 4
    HELLO = 5
    BYE = 6


class CallFrame(NamedTuple):
    """One frame. ``number`` names the call within its connection."""

    number: int
    kind: int
    data: bytes


def pack_frame(kind: Kind, number: int, data: bytes = b"") -> bytes:
    """The bytes of a frame."""
    return frame(_HEADER.pack(number, kind) + data)


def pack_seconds(seconds: float | None) -> bytes:
    """The time that a call may take, at the beginning of a CALL frame."""
    return _SECONDS.pack(math.nan if seconds is None else seconds)


def unpack_seconds(data: bytes) -> tuple[float | None, bytes]:
    """The time that a call may take, and the request. Raises ConnectionError for a frame that is too short."""
    if len(data) < _SECONDS.size:
        raise ConnectionError("a call without its time limit")
    (seconds,) = _SECONDS.unpack_from(data)
    return None if math.isnan(seconds) else seconds, data[_SECONDS.size :]


async def read_frames(reader: asyncio.StreamReader) -> AsyncIterator[CallFrame]:
    """The frames of a connection until it ends. Raises OSError for one that breaks off, is too large or too short."""
    while (payload := await read_frame(reader, MAX_FRAME_BYTES)) is not None:
        if len(payload) < _HEADER.size:
            raise ConnectionError("a frame without the number of its call")
        number, kind = _HEADER.unpack_from(payload)
        yield CallFrame(number, kind, payload[_HEADER.size :])
