"""Subscribers at the local socket: each gets the items that are published after its question."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress

from secmon.agents.link.wire import Answer, encode

MAX_WAITING = 1000
"""Items that wait for one subscriber; more are dropped for it."""


class Subscribers:
    """The subscribers to one kind of items. Publishing never waits."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[Answer]] = set()

    def __len__(self) -> int:
        return len(self._queues)

    def publish(self, answer: Answer) -> bool:
        """Queue an item for all subscribers. Returns whether at least one had room."""
        reported = False
        for queue in self._queues:
            with suppress(asyncio.QueueFull):
                queue.put_nowait(answer)
                reported = True
        return reported

    async def follow(self) -> AsyncGenerator[bytes, None]:
        """The items of one new subscriber, encoded, until the generator is closed."""
        queue: asyncio.Queue[Answer] = asyncio.Queue(MAX_WAITING)
        self._queues.add(queue)
        try:
            while True:
                yield encode(await queue.get())
        finally:
            self._queues.discard(queue)
