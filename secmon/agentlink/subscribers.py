"""Those who follow something at the local socket: each is told what happens from its question on."""

import asyncio
from contextlib import suppress
from typing import Any

from secmon.agents.link.wire import Answer, encode, framed
from secmon.common.background import cancel

MAX_WAITING = 1000
"""What waits for one listener; what comes beyond is lost to it."""
TAKING_SECONDS = 30.0
"""Time a client has to take an answer."""


class Subscribers:
    """Telling them waits for nobody."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[Answer]] = set()

    def __len__(self) -> int:
        return len(self._queues)

    def tell(self, answer: Answer) -> bool:
        """Whether at least one of them gets it."""
        told = False
        for queue in self._queues:
            with suppress(asyncio.QueueFull):
                queue.put_nowait(answer)
                told = True
        return told

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Tell one of them, until it goes. Raises OSError, TimeoutError."""
        queue: asyncio.Queue[Answer] = asyncio.Queue(MAX_WAITING)
        self._queues.add(queue)
        gone: asyncio.Task[Any] = asyncio.ensure_future(reader.read(1))
        waiting: asyncio.Task[Any] = asyncio.ensure_future(queue.get())
        try:
            while not gone.done():
                await asyncio.wait({gone, waiting}, return_when=asyncio.FIRST_COMPLETED)
                if waiting.done():
                    await write(writer, waiting.result())
                    waiting = asyncio.ensure_future(queue.get())
        finally:
            self._queues.discard(queue)
            await cancel(gone, waiting)


async def write(writer: asyncio.StreamWriter, answer: Answer) -> None:
    """Raises OSError, and TimeoutError when the client does not take it."""
    async with asyncio.timeout(TAKING_SECONDS):
        writer.write(framed(encode(answer)))
        await writer.drain()
