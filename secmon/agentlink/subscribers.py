"""Subscribers at the local socket: each gets what happens from its question on."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress

from secmon.agents.link.wire import Answer, encode

MAX_WAITING = 1000
"""Answers that wait for one subscriber; it does not get those beyond."""


class Subscribers:
    """The subscribers of one kind. Sending to them never waits."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[Answer]] = set()

    def __len__(self) -> int:
        return len(self._queues)

    def publish(self, answer: Answer) -> bool:
        """Whether at least one of them gets it."""
        told = False
        for queue in self._queues:
            with suppress(asyncio.QueueFull):
                queue.put_nowait(answer)
                told = True
        return told

    async def follow(self) -> AsyncGenerator[bytes, None]:
        """What one subscriber gets, encoded, until it is closed."""
        queue: asyncio.Queue[Answer] = asyncio.Queue(MAX_WAITING)
        self._queues.add(queue)
        try:
            while True:
                yield encode(await queue.get())
        finally:
            self._queues.discard(queue)
