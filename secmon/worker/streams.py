"""Reads streams of the master: stalls, lost sessions, and disk work that must not be interrupted."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

from grpc import aio

from secmon.cluster.rpc.closed_channel import ChannelClosed, closable
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.common.errors import SecmonError
from secmon.worker.link_listener import Link

_log = logging.getLogger(__name__)

STALL_SECONDS = 30.0
"""Time without a piece after which a stream counts as stalled."""


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
        """Do ``work`` of this node, which may take any time, with the timer stopped."""
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
    """Around the use of a stream. Raises SecmonError 3023 if it ends early, 3020 if it stalls."""
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
