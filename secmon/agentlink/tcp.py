"""TCP connections of agents: frames in, frames out, and each its fair share of the loop."""

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

from secmon.agentlink.agent_table import Agent
from secmon.agentlink.reply_path import ReplyPath
from secmon.agents.wire.address import source_text
from secmon.agents.wire.frames import Unframer, frame
from secmon.common.accept.acceptor import Accepted

LARGEST_READ = 65536


class Pool(Protocol):
    """What all connections share."""

    buffer: memoryview
    """Read into by one connection at a time: what a read leaves is copied before the next."""

    def payload(self, connection: "Connection", payload: bytes) -> None: ...

    def broken(self, connection: "Connection", why: str) -> None: ...

    def opened(self, connection: "Connection") -> None: ...

    def gone(self, connection: "Connection") -> None: ...

    def authenticated(self, connection: "Connection", agent: Agent) -> None:
        """It is a connection of ``agent``, and no longer of ``connection.agent``."""

    def allowance(self, connection: "Connection") -> int:
        """Bytes that it may bring before others have their turn."""

    def rest(self, connection: "Connection") -> None:
        """It has had its turn: its reading is paused until it is woken."""

    def takes(self, connection: "Connection", agent: Agent, size: int) -> bool:
        """As :meth:`Connection.takes`."""

    def must_wait(self, connection: "Connection", *, caught_up: bool) -> bool:
        """After a read: whether it is to be held; ``caught_up``: nothing more has come so far."""

    def hold(self, connection: "Connection") -> None:
        """It has brought too many events: its reading is paused until it is woken."""


class Connection(asyncio.BufferedProtocol):
    """One accepted connection; a :class:`~secmon.agentlink.receiving.Sender`."""

    stream = True

    def __init__(self, pool: Pool, *, send_limit: int, accepted: Accepted | None = None) -> None:
        """``send_limit``: bytes that may wait to be sent."""
        self.accepted = accepted
        self._pool = pool
        self._limit = send_limit
        self._transport: asyncio.Transport | None = None
        self._frames = Unframer()
        self._asked = 0
        self._wakers: list[asyncio.Future[None]] = []
        self._resting = False
        self.source = ""
        self.agent: Agent | None = None
        self.refused = False
        self.since = 0.0
        """Monotonic seconds of its opening, kept by the pool."""
        self.held = False
        self.superseded = False
        self.over_in = -1
        """Period of the queue of events in which it brought more than its agent's share."""
        self.drains_in = -1
        """Period in which it was held for as long as may be: what is over the share is dropped."""
        self.controls = 0
        """Control messages of its agent by then."""

    @property
    def closed(self) -> bool:
        return self._transport is None or self.superseded

    def supersede(self) -> None:
        self.superseded = True

    def same(self, other: ReplyPath) -> bool:
        return other is self

    def authenticated(self, agent: Agent) -> None:
        self._pool.authenticated(self, agent)
        self.agent = agent

    def takes(self, agent: Agent, size: int) -> bool:
        return self._pool.takes(self, agent, size)

    # Of the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self.accepted is not None:
            self.accepted.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if not peer:  # gone already
            cast(asyncio.Transport, transport).abort()
            self._pool.gone(self)
            return
        self._transport = cast(asyncio.Transport, transport)
        self.source = source_text(peer[0])
        self._transport.set_write_buffer_limits(high=self._limit // 2, low=self._limit // 4)
        self._pool.opened(self)

    def connection_lost(self, _error: Exception | None) -> None:
        if self._transport is not None:
            self._let_go()

    def get_buffer(self, _sizehint: int) -> memoryview:
        self._asked = min(self._pool.allowance(self), LARGEST_READ)
        return self._pool.buffer[: self._asked]

    def buffer_updated(self, count: int) -> None:
        pool = self._pool
        for payload in self._frames.feed(pool.buffer[:count]):
            pool.payload(self, payload)
            if self._transport is None:
                return  # refused: what follows is not trusted either
        if self._frames.broken:
            pool.broken(self, self._frames.broken)
        elif pool.must_wait(self, caught_up=count < self._asked):
            self._rest(pool.hold)
        elif count >= self._asked:
            self._rest(pool.rest)

    def pause_writing(self) -> None:
        """Nothing to do: ``write`` looks at what waits."""

    def resume_writing(self) -> None:
        self._wake_writers()

    # Of the link

    def write(self, payload: bytes) -> bool:
        transport = self._transport
        if transport is None or transport.get_write_buffer_size() + len(payload) + 4 > self._limit:
            return False
        transport.write(frame(payload))
        return True

    async def room(self, seconds: float) -> None:
        if self._transport is None:
            return
        waker = asyncio.get_running_loop().create_future()
        self._wakers.append(waker)
        await asyncio.wait([waker], timeout=seconds)
        if waker in self._wakers:
            self._wakers.remove(waker)

    def close(self) -> None:
        transport = self._transport
        if transport is not None:
            self._let_go()
            # A peer that does not read could keep a gentle close waiting for ever.
            transport.abort() if transport.get_write_buffer_size() else transport.close()

    def wake(self) -> None:
        """Read again."""
        if self._resting and self._transport is not None:
            self._resting = False
            self._transport.resume_reading()

    def _rest(self, until_woken: Callable[["Connection"], None]) -> None:
        if self._transport is not None and not self._resting:
            self._resting = True
            self._transport.pause_reading()
            until_woken(self)

    def _let_go(self) -> None:
        self._transport = None
        self._frames = Unframer()
        self._wake_writers()
        self._pool.gone(self)

    def _wake_writers(self) -> None:
        for waker in self._wakers:
            if not waker.done():
                waker.set_result(None)
        self._wakers.clear()
