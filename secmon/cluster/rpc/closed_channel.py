"""What the closing of a channel does to the tasks that use it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from grpc import aio

from secmon.common.background import cancelled_by_caller


class ChannelClosed(Exception):
    """Another task has closed the channel, before the call or under it (``in_flight``)."""

    def __init__(self, reason: str, *, in_flight: bool) -> None:
        self.in_flight = in_flight
        super().__init__(reason)


@contextmanager
def closable() -> Iterator[None]:
    """Around calls on a channel that another task may close. Raises ChannelClosed when it does.

    gRPC cancels the calls under way, which looks like a cancellation of the task; the latter passes through.
    """
    try:
        yield
    except asyncio.CancelledError:
        if cancelled_by_caller():
            raise
        raise ChannelClosed("the channel was closed", in_flight=True) from None
    except aio.UsageError as error:
        raise ChannelClosed(str(error), in_flight=False) from None
