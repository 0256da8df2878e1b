"""Work in a thread that ends before its task does."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
log = logging.getLogger("secmon.tasks")


async def to_the_end(work: Callable[[], T]) -> T:
    """Run ``work`` in a thread, like :func:`asyncio.to_thread`. A task that is cancelled meanwhile waits for its end.

    A thread cannot be stopped. Until it has ended, its files must not be closed or removed, and what it changes must
    not be read as if it had not.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        if error := running.exception():
            log.debug("the work of a cancelled task failed: %s", error)
        raise
