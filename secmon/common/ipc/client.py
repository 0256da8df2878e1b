"""The callers of :mod:`secmon.common.ipc.server`: a connection for each call; cancelling a call closes it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from secmon.common.errors import SecmonError
from secmon.common.ipc.framing import frame, read_frame
from secmon.common.trace import span

MAX_ANSWER = 64 << 20
"""Bytes of one answer."""


async def call(path: Path, request: bytes, *, seconds: float | None) -> bytes:
    """The answer to ``request``; ``seconds`` bounds everything.

    Raises OSError: FileNotFoundError without a socket, ConnectionRefusedError when no process listens, TimeoutError.
    """
    with span("daemon"):
        async with asyncio.timeout(seconds), _connection(path, request) as reader:
            return await _answer(reader)


async def subscribe(path: Path, request: bytes) -> AsyncGenerator[bytes, None]:
    """All answers to ``request``, without end. Raises OSError when the other side closes."""
    async with _connection(path, request) as reader:
        while True:
            yield await _answer(reader)


def call_error(error: OSError, path: Path, *, absent: int = 1121, refused: int = 1013) -> SecmonError:
    """What a failed call is to clients: ``absent`` without a socket, ``refused`` when no process listens, else 1014."""
    match error:
        case FileNotFoundError():
            return SecmonError(absent, str(path))
        case ConnectionRefusedError() | PermissionError():
            return SecmonError(refused, str(path))
        case _:
            return SecmonError(1014, f"{path}: {error or 'no answer in time'}")


@asynccontextmanager
async def _connection(path: Path, request: bytes) -> AsyncIterator[asyncio.StreamReader]:
    """A connection over which ``request`` was sent."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        writer.write(frame(request))
        await writer.drain()
        yield reader
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> bytes:
    answer = await read_frame(reader, MAX_ANSWER)
    if answer is None:
        raise ConnectionResetError("the connection ended before the answer")
    return answer
