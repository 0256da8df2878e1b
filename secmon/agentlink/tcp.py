"""TCP connections of agents: frames in, frames out, and each its fair share of the loop."""

import asyncio
from typing import Protocol, cast

from secmon.agentlink.roll import Agent
from secmon.agentlink.routes import Route
from secmon.common.agentwire.address import source_text
from secmon.common.agentwire.frames import Unframer, frame

LARGEST_READ = 65536


class Floor(Protocol):
    """What all connections share."""

    buffer: memoryview
    """Read into by one connection at a time: what a read leaves is copied before the next."""

    def payload(self, connection: "Connection", payload: bytes) -> None: ...

    def broken(self, connection: "Connection", why: str) -> None: ...

    def opened(self, connection: "Connection") -> None: ...

    def gone(self, connection: "Connection") -> None: ...

    def proved(self, connection: "Connection", agent: Agent) -> None:
        """It is a connection of ``agent``, and no longer of ``connection.agent``."""

    def allowance(self) -> int:
        """Bytes that a connection may bring before others have their turn."""

    def rest(self, connection: "Connection") -> None:
        """It has had its share, or nobody may bring more for now: its reading is paused until it is woken."""

    @property
    def full(self) -> bool:
        """No more can be taken."""


class Connection(asyncio.BufferedProtocol):
    """One accepted connection; a :class:`~secmon.agentlink.receiving.Sender`."""

    stream = True

    def __init__(self, floor: Floor, *, send_limit: int) -> None:
        """``send_limit``: bytes that may wait to be sent."""
        self._floor = floor
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
        """Monotonic seconds of its opening, kept by the floor."""

    @property
    def closed(self) -> bool:
        return self._transport is None

    def same(self, other: Route) -> bool:
        return other is self

    def admitted(self, agent: Agent) -> None:
        self._floor.proved(self, agent)
        self.agent = agent

    # Of the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        if not peer:  # gone already
            cast(asyncio.Transport, transport).abort()
            return
        self._transport = cast(asyncio.Transport, transport)
        self.source = source_text(peer[0])
        self._transport.set_write_buffer_limits(high=self._limit // 2, low=self._limit // 4)
        self._floor.opened(self)

    def connection_lost(self, _error: Exception | None) -> None:
        if self._transport is not None:
            self._let_go()

    def get_buffer(self, _sizehint: int) -> memoryview:
        self._asked = min(self._floor.allowance(), LARGEST_READ)
        return self._floor.buffer[: self._asked]

    def buffer_updated(self, count: int) -> None:
        floor = self._floor
        for payload in self._frames.feed(floor.buffer[:count]):
            floor.payload(self, payload)
            if self._transport is None:
                return  # refused: what follows is not trusted either
        if self._frames.broken:
            floor.broken(self, self._frames.broken)
        elif floor.full or count >= self._asked:
            self._rest()

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

    def _rest(self) -> None:
        if self._transport is not None and not self._resting:
            self._resting = True
            self._transport.pause_reading()
            self._floor.rest(self)

    def _let_go(self) -> None:
        self._transport = None
        self._frames = Unframer()
        self._wake_writers()
        self._floor.gone(self)

    def _wake_writers(self) -> None:
        for waker in self._wakers:
            if not waker.done():
                waker.set_result(None)
        self._wakers.clear()
