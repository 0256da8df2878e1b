"""Events on their way into the journal: gathered on the loop, written by a thread of their own."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from secmon.common.events.journal import JournalWriter

log = logging.getLogger("secmon.agentlink")

MAX_BYTES = 64 << 20
"""Bytes that may wait, however few events they are."""
MAX_LINE = 65536
"""Bytes of one event (agent-link.md 11.2)."""
GATHER_SECONDS = 0.01
RETRY_SECONDS = 0.05
DISK_RETRY_SECONDS = 1.0


class EventQueue:
    """Bounded by those who fill it: while :attr:`full`, they wait or drop.

    What is added is in the journal about ``GATHER_SECONDS`` later. At a stop everything that fits is written.
    """

    def __init__(self, journal: JournalWriter, *, size: int, on_room: Callable[[], None]) -> None:
        """``size`` in events; ``on_room`` is called when it is no longer full."""
        self._journal = journal
        self._size = size
        self._on_room = on_room
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._in_hand = 0
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="events")
        self._stopping = False
        self.full = False

    @property
    def usage(self) -> int:
        """Events that are not in the journal yet."""
        return len(self._waiting) + self._in_hand

    def add(self, line: bytes) -> None:
        """Take a line for the engine: ``<queue>:<location>:<log>``, cut at 65536 bytes."""
        if len(line) > MAX_LINE:
            line = line[:MAX_LINE]
        waiting = self._waiting
        if not waiting:
            self._wake.set()
        waiting.append(line)
        self._bytes += len(line)
        if len(waiting) >= self._size or self._bytes >= MAX_BYTES:
            self.full = True

    async def run(self) -> None:
        """Write until :meth:`stop`."""
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not self._stopping:
                await asyncio.sleep(GATHER_SECONDS)
            batch, self._waiting, self._bytes = self._waiting, [], 0
            self._in_hand = len(batch)
            while batch:
                batch, pause = await loop.run_in_executor(self._thread, self._write, batch)
                self._in_hand = len(batch)
                if batch and self._stopping:
                    log.error("%d events could not be written before the stop", len(batch))
                    break
                await asyncio.sleep(pause)
            self._in_hand = 0
            if self.full and len(self._waiting) < self._size / 2 and self._bytes < MAX_BYTES / 2:
                self.full = False
                self._on_room()
            if self._waiting:
                self._wake.set()
            elif self._stopping:
                return

    def stop(self) -> None:
        """Let :meth:`run` end when everything is written."""
        self._stopping = True
        self._wake.set()

    def close(self) -> None:
        """Call after the end of :meth:`run`: closes the journal."""
        self._thread.shutdown()
        self._journal.close()

    def _write(self, batch: list[bytes]) -> tuple[list[bytes], float]:
        """In the thread: what could not be written, and the seconds to wait before the next try."""
        journal = self._journal
        if journal.full:
            journal.make_room()
        if journal.full:
            return batch, RETRY_SECONDS
        before = journal.next
        try:
            journal.append(batch)
        except OSError as error:
            log.error("Events cannot be written: %s", error)
            return batch[journal.next - before :], DISK_RETRY_SECONDS
        return [], 0.0
