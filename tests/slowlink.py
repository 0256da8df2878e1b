"""A network between two nodes, simulated: TCP connections through it are slow, lossy, stuck or cut, as tests wish."""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass

SEGMENT = 1448
"""Bytes of a TCP segment."""
_WINDOW = 256 * 1024
"""Bytes under way in one direction of a connection; more are not read from the sender."""


@dataclass(frozen=True, kw_only=True)
class Quality:
    """``delay``: seconds, each way. ``bandwidth``: bytes a second, each way, of all connections together. ``loss``:
    share of segments.

    A segment that is lost is sent again after two round trips (the probe of a connection's tail), then after twice as
    long each time; all that was sent after it waits, as TCP delivers in order.
    """

    delay: float = 0.0
    bandwidth: float = float("inf")
    loss: float = 0.0


class SlowLink:
    """Listens at :attr:`port` for one port of this host. Start it once, stop it once."""

    def __init__(self, target: int, quality: Quality | None = None, *, seed: int = 1) -> None:
        self._target = target
        self.quality = quality or Quality()
        self._chance = random.Random(seed)
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._open = True
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._busy_until = [0.0, 0.0]
        self.port = 0
        self.connections = 0

    async def start(self) -> "SlowLink":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=SEGMENT)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def freeze(self) -> None:
        """A black hole: nothing arrives, without an error. What was sent arrives after :meth:`thaw`."""
        self._flowing.clear()

    def thaw(self) -> None:
        self._flowing.set()

    def cut(self) -> None:
        """Reset every connection, and each new one until :meth:`mend`."""
        self._open = False
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        self._open = True

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open:
            writer.transport.abort()
            return
        self.connections += 1
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target, limit=SEGMENT)
        except OSError:
            writer.transport.abort()
            return
        round_trip = 2 * self.quality.delay  # the connection itself
        for direction, way in enumerate(
            (_Way(self, reader, there_writer, round_trip), _Way(self, there_reader, writer, 0.0))
        ):
            self._writers.add(way.writer)
            for work in (way.take(direction), way.deliver()):
                task = asyncio.create_task(work)
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def lateness(self, size: int) -> float:
        """Seconds that losses among ``size`` bytes cost."""
        late, quality = 0.0, self.quality
        for _ in range(-(-size // SEGMENT) if quality.loss else 0):
            pause = max(0.2, 4 * quality.delay)
            while self._chance.random() < quality.loss:
                late += pause
                pause *= 2
        return late

    def transmitted(self, direction: int, size: int, start: float) -> float:
        """When ``size`` bytes that are ready at ``start`` have left the sender's end: one after the other."""
        self._busy_until[direction] = max(self._busy_until[direction], start) + size / self.quality.bandwidth
        return self._busy_until[direction]

    async def flows(self) -> None:
        await self._flowing.wait()

    def forget(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)


class _Way:
    """One direction of one connection."""

    def __init__(
        self, link: SlowLink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, opening: float
    ) -> None:
        self.writer = writer
        self._link, self._reader = link, reader
        self._queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_WINDOW // SEGMENT)
        self._last = asyncio.get_running_loop().time() + opening
        """When the latest bytes leave the sender."""

    async def take(self, direction: int) -> None:
        """Read what is sent, until its end."""
        loop = asyncio.get_running_loop()
        data = b"-"
        while data:
            try:
                data = await self._reader.read(SEGMENT)
            except OSError:
                data = b""
            link, size = self._link, len(data)
            sent = link.transmitted(direction, size, loop.time())
            self._last = max(self._last, sent) + link.lateness(size)
            await self._queue.put((self._last + link.quality.delay, data))

    async def deliver(self) -> None:
        """Write each piece when its time has come."""
        loop, writer = asyncio.get_running_loop(), self.writer
        try:
            while True:
                due, data = await self._queue.get()
                if (pause := due - loop.time()) > 0:
                    await asyncio.sleep(pause)
                await self._link.flows()
                if not data:
                    break
                writer.write(data)
                await writer.drain()
            writer.close()
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._link.forget(writer)
            with suppress(OSError):
                await writer.wait_closed()
