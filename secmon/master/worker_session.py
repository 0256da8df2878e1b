"""The master's end of one worker's Join stream."""

import asyncio
import logging
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Protocol

from grpc import aio

from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.master.membership import Candidate, ConnectedWorker

log = logging.getLogger("secmon.clusterd.session")

QUEUE_LIMIT = 1024
"""Queued messages for a worker. One that is further behind is disconnected; it resynchronizes after its next join."""
MAX_MESSAGE_BYTES = 64 * 1024
"""Limit of a worker's message on this stream: it has positions and counts, nothing that grows with the installation."""
_SKEW_SAMPLES = 8
"""Samples of a worker's clock that are kept."""
LEAVE_SECONDS = 1.0
"""Time for the reason of a closed session to be sent."""

JoinContext = aio.ServicerContext[pb.WorkerMessage, pb.MasterMessage]


class WorkerSession:
    """A connected worker. Used on the event loop only.

    It is open until ``reason`` is set, by :meth:`close` or by the end of the stream, and never opens again: a worker
    that comes back gets a new session. Closing replaces the queued messages by the reason alone, as the worker compares
    everything after its next join.
    """

    def __init__(self, candidate: Candidate, *, peer_port: int, now: datetime, monotonic: float) -> None:
        self.candidate = candidate
        self.name = candidate.name
        self.installation_id = candidate.installation_id
        self.ip, self.address = candidate.ip, candidate.address or candidate.ip
        self.version = candidate.version
        self.peer_port = peer_port
        self.joined_at = now
        self.last_heard = monotonic
        self.round_trip = math.inf
        """Round trip of the link in seconds, measured by the worker; infinite before its first heartbeat."""
        self.reason: str | None = None
        """Why the session was closed; None while it is open."""
        self.clock_reported = False
        self._skew_samples = deque([candidate.skew], _SKEW_SAMPLES)
        self.closed = asyncio.Event()
        self._queue: asyncio.Queue[pb.MasterMessage] = asyncio.Queue(QUEUE_LIMIT)

    @property
    def protocol(self) -> int:
        """Generation of the link that the worker speaks."""
        return self.candidate.protocol

    @property
    def skew(self) -> float:
        """Seconds that the worker's clock is ahead of this node's.

        Delay makes a clock look late, so the largest of the latest samples is the most accurate one.
        """
        return max(self._skew_samples)

    def record_skew(self, skew: float) -> None:
        """Add a sample: a heartbeat's time minus this node's, in seconds."""
        self._skew_samples.append(skew if math.isfinite(skew) else math.inf)

    def send(self, message: pb.MasterMessage) -> None:
        """Queue ``message`` in order; no effect once the session is closed. An overflow closes it."""
        if self.reason is not None:
            return
        try:
            self._queue.put_nowait(message)
        except asyncio.QueueFull:
            self.close(f"{QUEUE_LIMIT} messages wait for {self.name}: it does not take them")

    def close(self, reason: str) -> None:
        """Close the session and send the worker the reason. Only the first reason counts."""
        if self.reason is not None:
            return
        self.reason = reason
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(pb.MasterMessage(leave=pb.Leave(reason=reason)))
        self.closed.set()

    def connected(self) -> ConnectedWorker:
        """This session in a membership view."""
        return ConnectedWorker(
            serial=self.candidate.serial,
            name=self.name,
            installation_id=self.installation_id,
            ip=self.ip,
            last_heard=self.last_heard,
            round_trip=self.round_trip,
            skew=self.skew,
        )

    async def serve(
        self,
        incoming: AsyncIterator[pb.WorkerMessage],
        context: JoinContext,
        received: Callable[["WorkerSession", pb.WorkerMessage], None],
        *,
        max_per_second: int,
    ) -> None:
        """Transfer messages both ways until either side closes the session; ``reason`` is set then.

        ``max_per_second``: messages that the worker may send in a second.
        """
        writer = asyncio.create_task(self._write(context), name=f"write to {self.name}")
        reader = asyncio.create_task(self._read(incoming, received, max_per_second), name=f"read from {self.name}")
        closing = asyncio.create_task(self.closed.wait())
        tasks = {writer, reader, closing}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            self.close(self._end_reason(reader, writer))
            await asyncio.wait({writer}, timeout=LEAVE_SECONDS)
        finally:
            self.close("the connection was lost")
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self, context: JoinContext) -> None:
        while True:
            message = await self._queue.get()
            await context.write(message)
            if message.HasField("leave"):
                return

    async def _read(
        self,
        incoming: AsyncIterator[pb.WorkerMessage],
        received: Callable[["WorkerSession", pb.WorkerMessage], None],
        max_per_second: int,
    ) -> str:
        loop = asyncio.get_running_loop()
        began, count = loop.time(), 0
        async for message in incoming:
            if loop.time() - began >= 1.0:
                began, count = loop.time(), 0
            count += 1
            if count > max_per_second:
                return f"it sends more than {max_per_second} messages a second"
            if message.ByteSize() > MAX_MESSAGE_BYTES:
                return f"it sent a message of {message.ByteSize()} bytes, {MAX_MESSAGE_BYTES} are allowed"
            if message.HasField("leave"):
                return f"it left: {message.leave.reason[:200]!r}"
            if self.closed.is_set():  # by the master; it is no longer in the table
                break
            received(self, message)
        return "it closed the connection"

    def _end_reason(self, reader: asyncio.Task[str], writer: asyncio.Task[None]) -> str:
        for task in (reader, writer):
            if task.done() and not task.cancelled() and (error := task.exception()):
                if isinstance(error, aio.AioRpcError | aio.BaseError):
                    return "the connection was lost"
                log.error("the session of %s failed", self.name, exc_info=error)
                return "internal error, see the master's log"
        return reader.result() if reader.done() and not reader.cancelled() else "the connection was lost"


class Caller(Protocol):
    """The worker that calls."""

    @property
    def protocol(self) -> int:
        """Generation of the link that the worker speaks."""


class Subscriber(Caller, Protocol):
    """A worker's session, as publishers use it."""

    @property
    def name(self) -> str: ...

    def send(self, message: pb.MasterMessage) -> None:
        """Queue ``message``; never blocks. Order is kept."""


class SessionListener(Protocol):
    """Is called about sessions in order, on the event loop; must not block."""

    def joined(self, session: WorkerSession) -> None:
        """The welcome is queued; messages sent now follow it."""

    def received(self, session: WorkerSession, message: pb.WorkerMessage) -> None:
        """The worker sent ``message``. Raising ends the session."""

    def left(self, session: WorkerSession) -> None:
        """The session is closed; ``session.reason`` says why."""
