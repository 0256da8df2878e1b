"""Reading the master's streams: stalls, lost sessions, and disk work that must not be cut short."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from grpc import aio

from secmon.cluster.rpc.channels import ChannelClosed, closable
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.common.errors import SecmonError
from secmon.worker.link_listener import Link

_log = logging.getLogger(__name__)

STALL_SECONDS = 30.0
"""Without a piece of an expected stream for so long, the master counts as gone."""


class StallTimer:
    """The time left for the next piece."""

    def __init__(self, limit: asyncio.Timeout, link: Link) -> None:
        self._limit, self._link = limit, link

    def progress(self) -> None:
        """A piece has come: restart the timer."""
        self._link.heard()
        self._restart()

    def _restart(self) -> None:
        self._limit.reschedule(asyncio.get_running_loop().time() + STALL_SECONDS)

    async def pause(self, work: Awaitable[None]) -> None:
        """Do ``work`` of our own, which is not the master's fault however long it takes."""
        self._limit.reschedule(None)
        await work
        self._restart()


def replication(link: Link) -> "pb_grpc.ReplicationAsyncStub":
    """The master's Replication service. Raises SecmonError 3023 without a session."""
    if link.channel is None:
        raise SecmonError(3023)
    return pb_grpc.ReplicationStub(link.channel)


@asynccontextmanager
async def reading_stream(link: Link) -> AsyncIterator[StallTimer]:
    """Around the use of a stream. Whatever ends it early becomes SecmonError 3023, or 3020 when it stalled."""
    try:
        with closable():
            async with asyncio.timeout(STALL_SECONDS) as limit:
                yield StallTimer(limit, link)
    except ChannelClosed:
        raise SecmonError(3023, "the session ended") from None
    except aio.AioRpcError as error:
        raise SecmonError(3023, error.details()) from error
    except TimeoutError:
        raise SecmonError(3020, f"no data for {STALL_SECONDS:g} s") from None


async def in_thread(work: Callable[[], None]) -> None:
    """Run disk ``work`` in a thread to its end, even when the task is cancelled: a thread cannot be stopped, and
    its files must not be closed, nor its folders removed, before."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if error := task.exception():
            _log.debug("Disk work of a cancelled task failed: %s", error)
        raise
