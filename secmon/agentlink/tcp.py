"""TCP connections of agents: frames in and frames out. What to do with them is decided elsewhere."""

import asyncio
from typing import Protocol, cast

from secmon.agentlink.agent_table import Agent
from secmon.agentlink.connection_state import Signal, State, next_state
from secmon.agentlink.reply_path import ReplyPath
from secmon.agents.wire.address import source_text
from secmon.agents.wire.frames import Unframer, frame
from secmon.common.accept.acceptor import Accepted

LARGEST_READ = 65536


class Pool(Protocol):
    """The pool that handles the connections and their payloads."""

    buffer: memoryview
    """Read into by one connection at a time: what a read leaves is copied before the next."""

    def opened(self, connection: "Connection") -> None: ...

    def allowance(self, connection: "Connection") -> int:
        """Bytes that it may bring before others have their turn."""

    def receive(self, connection: "Connection", payload: bytes) -> None: ...

    def broken(self, connection: "Connection", why: str) -> None:
        """Its stream of frames cannot go on."""

    def after_read(self, connection: "Connection", *, caught_up: bool) -> None:
        """All payloads of a read were handled; ``caught_up``: nothing more has come so far."""

    def authenticated(self, connection: "Connection", agent: Agent) -> None:
        """It is a connection of ``agent``, and no longer of ``connection.agent``."""

    def accepts_event(self, connection: "Connection", agent: Agent, size: int) -> bool:
        """As :meth:`Connection.accepts_event`."""

    def gone(self, connection: "Connection") -> None: ...


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
        self._read_limit = 0
        self._wakers: list[asyncio.Future[None]] = []
        self._paused = False
        self.state = State.READING
        self.over_share = False
        """It has brought more than its agent's share of events since it is in its state."""
        self.superseded = False
        self.source = ""
        self.agent: Agent | None = None
        self.refused = False
        self.since = 0.0
        """Monotonic seconds of its opening, set by the pool."""

    @property
    def closed(self) -> bool:
        return self._transport is None or self.superseded

    @property
    def held(self) -> bool:
        return self.state is State.HELD

    def supersede(self) -> None:
        self.superseded = True

    def same(self, other: ReplyPath) -> bool:
        return other is self

    def authenticated(self, agent: Agent) -> None:
        self._pool.authenticated(self, agent)
        self.agent = agent

    def accepts_event(self, agent: Agent, size: int) -> bool:
        return self._pool.accepts_event(self, agent, size)

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self.accepted is not None:
            self.accepted.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if not peer:  # gone already
            cast(asyncio.Transport, transport).abort()
            self._end()
            return
        self._transport = cast(asyncio.Transport, transport)
        self.source = source_text(peer[0])
        self._transport.set_write_buffer_limits(high=self._limit // 2, low=self._limit // 4)
        self._pool.opened(self)

    def connection_lost(self, _error: Exception | None) -> None:
        if self._transport is not None:
            self._end()

    def get_buffer(self, _sizehint: int) -> memoryview:
        self._read_limit = min(self._pool.allowance(self), LARGEST_READ)
        return self._pool.buffer[: self._read_limit]

    def buffer_updated(self, count: int) -> None:
        pool = self._pool
        for payload in self._frames.feed(pool.buffer[:count]):
            pool.receive(self, payload)
            if self.state is State.CLOSING:
                return  # refused: what follows is not trusted either
        if self._frames.broken:
            pool.broken(self, self._frames.broken)
        else:
            pool.after_read(self, caught_up=count < self._read_limit)

    def pause_writing(self) -> None:
        """Nothing to do: ``write`` looks at what waits."""

    def resume_writing(self) -> None:
        self._wake_writers()

    # Called by the link

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

    def pause(self) -> None:
        """Stop reading."""
        if self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._transport is not None and self._paused:
            self._paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        transport = self._transport
        if transport is not None:
            self._end()
            # A graceful close would wait without end for a peer that does not read.
            transport.abort() if transport.get_write_buffer_size() else transport.close()

    def _end(self) -> None:
        self.state = next_state(self.state, Signal.CLOSE)
        self._transport = None
        self._frames = Unframer()
        self._wake_writers()
        self._pool.gone(self)

    def _wake_writers(self) -> None:
        for waker in self._wakers:
            if not waker.done():
                waker.set_result(None)
        self._wakers.clear()
