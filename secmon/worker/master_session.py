"""One session with the master: messages both ways, heartbeats, certificate renewal."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from grpc import aio

from secmon.cluster.leadership.known_term import NO_TERMS, KnownTerm
from secmon.cluster.rpc import certificates
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.cluster.rpc.keystore import Keystore
from secmon.cluster.rpc.link_settings import LinkSettings
from secmon.cluster.rpc.replica_positions import Positions
from secmon.common.clock import Clock
from secmon.worker.lease_extension import LeaseExtender

log = logging.getLogger("secmon.clusterd.link")

QUEUE_LIMIT = 1024
"""Queued messages in either direction. An overflow ends the session; the next one starts with a comparison."""
LEAVE_SECONDS = 1.0
FINISH_SECONDS = 2.0
"""For calls in flight when the session ends: a master that stops finishes them."""
RENEWAL_PAUSE_SECONDS = 60.0
"""Between a failed renewal and the next attempt."""

SMOOTHING = 1 / 8
"""Weight of the latest round trip in the smoothed one (RFC 6298)."""

JoinCall = aio.StreamStreamCall[pb.WorkerMessage, pb.MasterMessage]
Opened = Callable[[pb.Welcome], Awaitable[None]]
Received = Callable[[pb.MasterMessage], Awaitable[None]]


class MasterSession:
    """A joined session. :meth:`serve` runs five tasks until the first of them ends:

    read, write, heartbeat, dispatch to listeners, and the wait for :meth:`end`. Reading and dispatch are separate, so
    that heartbeats are answered and counted while a listener is busy. The first reason for the end is kept.
    """

    def __init__(
        self,
        *,
        control: aio.Channel,
        channel: aio.Channel,
        call: JoinCall,
        welcome: pb.Welcome,
        settings: LinkSettings,
        keystore: Keystore,
        clock: Clock,
        positions: Positions,
        active_agents: Callable[[], int],
        lease: LeaseExtender | None,
        round_trip: float,
        known: KnownTerm = NO_TERMS,
    ) -> None:
        """``control`` carries ``call`` and nothing else, so that heartbeats do not wait behind files in a send buffer.
        ``channel`` is for all other calls. ``round_trip``: of the link, a first estimate.
        """
        self._control, self.channel, self.welcome = control, channel, welcome
        self.reason: str | None = None
        """Why the session ended; None while it lasts."""
        self._call, self._settings, self._keystore, self._clock = call, settings, keystore, clock
        self._positions, self._active_agents, self._lease = positions, active_agents, lease
        self._known = known
        self._interval = max(0.01, welcome.heartbeat_ms / 1000)
        self._out: asyncio.Queue[pb.WorkerMessage] = asyncio.Queue(QUEUE_LIMIT)
        self._in: asyncio.Queue[pb.MasterMessage] = asyncio.Queue(QUEUE_LIMIT)
        self._ended = asyncio.Event()
        self._sent_at: dict[int, float] = {}
        self._round_trip = round_trip
        self._last_heard = clock.monotonic()
        self._renewing: asyncio.Task[None] | None = None
        self._next_renewal = clock.monotonic()

    def send(self, message: pb.WorkerMessage) -> None:
        """Queue ``message``; an overflow ends the session."""
        if self.reason is None:
            try:
                self._out.put_nowait(message)
            except asyncio.QueueFull:
                self.end(f"{QUEUE_LIMIT} messages wait for the master: it does not take them")

    def heard(self) -> None:
        """The master has sent something, on whichever channel."""
        self._last_heard = self._clock.monotonic()

    def end(self, reason: str) -> None:
        """End the session. Only the first reason counts."""
        if self.reason is None:
            self.reason = reason
        self._ended.set()

    async def close(self) -> None:
        """Close both channels; calls in flight have ``FINISH_SECONDS``."""
        await asyncio.gather(self._control.close(None), self.channel.close(FINISH_SECONDS))

    async def leave(self, reason: str) -> None:
        """Send the master the reason, and end when it has closed the session or ``LEAVE_SECONDS`` have passed."""
        self.send(pb.WorkerMessage(leave=pb.Leave(reason=reason)))
        self.reason = self.reason or reason
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), LEAVE_SECONDS)
        self.end(reason)

    async def serve(self, opened: Opened, received: Received) -> None:
        """Run until the session ends; ``reason`` is set then."""
        tasks = {
            asyncio.create_task(self._read(), name="read from the master"),
            asyncio.create_task(self._write(), name="write to the master"),
            asyncio.create_task(self._send_heartbeats(), name="heartbeat"),
            asyncio.create_task(self._dispatch(opened, received), name="dispatch"),
            asyncio.create_task(self._ended.wait(), name="end"),
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                self.end(_failure(task) or "the master closed the connection")
        finally:
            if self._renewing:
                tasks.add(self._renewing)
            for task in tasks:
                task.cancel()
            self._call.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self) -> None:
        while isinstance(message := await self._call.read(), pb.MasterMessage):
            self.heard()
            if self._known.number > self.welcome.master.term:
                self.end(f"term {self.welcome.master.term} of this master is over: term {self._known.number} has begun")
                return
            if message.HasField("leave"):
                self.end(f"the master: {message.leave.reason}")
                return
            if message.HasField("heartbeat"):
                self._heartbeat_answered(message.heartbeat)
            try:
                self._in.put_nowait(message)
            except asyncio.QueueFull:
                self.end(f"{QUEUE_LIMIT} messages of the master wait: this node does not keep up")
                return

    def _heartbeat_answered(self, answer: pb.MasterHeartbeat) -> None:
        """Answers come in order, so heartbeats before this one have no answer to wait for."""
        sent_at = self._sent_at.pop(answer.sequence, None)
        for sequence in [each for each in self._sent_at if each < answer.sequence]:
            del self._sent_at[sequence]
        if sent_at is None:
            return
        self._round_trip += (self._clock.boottime() - sent_at - self._round_trip) * SMOOTHING
        if self._lease:
            self._lease.heartbeat_answered(answer, sent_at)

    async def _write(self) -> None:
        while True:
            message = await self._out.get()
            await self._call.write(message)

    async def _dispatch(self, opened: Opened, received: Received) -> None:
        """Pass messages to the listeners, one at a time."""
        await opened(self.welcome)
        while True:
            await received(await self._in.get())

    async def _send_heartbeats(self) -> None:
        """Send heartbeats, and end the session when the master is silent.

        After this process was suspended, the master's messages are still unread, so silence is judged one interval
        later.
        """
        sequence = 0
        while True:
            silence = self._interval * self._settings.heartbeat_misses + self._settings.delay_seconds(self._round_trip)
            sequence += 1
            self._send_heartbeat(sequence)
            self._renew_when_due()
            slept_from = self._clock.monotonic()
            await asyncio.sleep(self._interval)
            now = self._clock.monotonic()
            if now - slept_from <= silence + self._interval and now - self._last_heard > silence:
                self.end(f"the master has been silent for {now - self._last_heard:.1f} s")

    def _send_heartbeat(self, sequence: int) -> None:
        self._sent_at[sequence] = self._clock.boottime()
        security, files = self._positions()
        heartbeat = pb.WorkerHeartbeat(
            clock=self._clock.now().timestamp(),
            sequence=sequence,
            security=security,
            files=files,
            active_agents=self._active_agents(),
            round_trip=self._round_trip,
            term=self._known.number,
        )
        self.send(pb.WorkerMessage(heartbeat=heartbeat))

    def _renew_when_due(self) -> None:
        now = self._clock.monotonic()
        if self._keystore.renewal_due() and now >= self._next_renewal:
            self._next_renewal = now + RENEWAL_PAUSE_SECONDS
            self._renewing = asyncio.create_task(self._renew(), name="renew certificate")

    async def _renew(self) -> None:
        """Get a new certificate for the same key. Later sessions use it; this one continues."""
        current = self._keystore.current
        assert current is not None, "a joined node has a certificate"
        csr = certificates.new_request(certificates.load_key(current.key), self._settings.node_name)
        try:
            stub = pb_grpc.MembershipStub(self.channel)
            reply = await stub.Renew(pb.RenewRequest(csr=csr), timeout=self._settings.join_timeout_seconds)
        except aio.AioRpcError as error:
            log.warning("the certificate could not be renewed: %s", error.details())
            return
        try:
            defect = self._keystore.renewed(reply.certificate, reply.authority)
        except OSError as error:
            defect = str(error)
        if defect:
            log.error("the renewed certificate is not used: %s", defect)
        else:
            log.info("the certificate of this node is renewed")


def _failure(task: asyncio.Task[Any]) -> str | None:
    """Why a task of the session ended early; None when it merely returned."""
    error = None if task.cancelled() else task.exception()
    if error is None:
        return None
    if isinstance(error, aio.AioRpcError):
        return f"the connection was lost: {error.details()}"
    if isinstance(error, asyncio.InvalidStateError):  # written to after the stream ended
        return "the master closed the connection"
    log.error("%s failed", task.get_name(), exc_info=error)
    return "internal error, see this node's log"
