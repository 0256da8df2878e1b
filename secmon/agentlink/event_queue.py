"""Events on their way into the journal: gathered on the loop, written by a thread of their own."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from secmon.common.errors import os_text
from secmon.common.logfile.lasting_trouble import LastingTrouble
from secmon.journal.journal import JournalWriter

log = logging.getLogger("secmon.agentlink")

MAX_BYTES = 64 << 20
"""Bytes that may wait, however few events they are."""
MAX_LINE = 65536
"""Bytes of one event (agent-link.md 11.2)."""
GATHER_SECONDS = 0.01
"""At least so long between the beginnings of two writes: events that come meanwhile share the second one."""
RETRY_SECONDS = 0.05
DISK_RETRY_SECONDS = 1.0


_PIECE = 4096
"""Events written before the journal is asked for room again."""


class EventQueue:
    """Bounded by those who fill it: while :attr:`tight`, each keeps to a share; while :attr:`full`, they wait or drop.

    What is added after a pause is written at once, under load about ``GATHER_SECONDS`` later. At a stop everything that
    fits is written.
    """

    def __init__(self, journal: JournalWriter, *, size: int, on_room: Callable[[], None]) -> None:
        """``size`` in events; ``on_room`` is called when what made it tight is written."""
        self._journal = journal
        self._size = size
        self._on_room = on_room
        self._waiting: list[bytes] = []
        self._unit = max(1, MAX_BYTES // size)
        self._load = 0  # in events of common size
        self._in_hand = 0
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="events")
        self._stopping = False
        self._trouble = LastingTrouble(log, "Events cannot be written, and wait", "Events are written again")
        self.full = False
        self.tight = False
        """Half of it is taken, and not all of that is in the journal yet."""
        self.period = 0
        """Number of the stretch of time that shares are for: a new one begins when there is room again."""

    @property
    def size(self) -> int:
        return self._size

    @property
    def crowded(self) -> bool:
        """There is far more than shares add up to: reads that were under way have brought it."""
        return self._load >= 2 * self._size + _PIECE

    def cost(self, size: int) -> int:
        """What an event of ``size`` bytes takes of :attr:`size`: long ones count more than once."""
        return 1 + size // self._unit

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
        self._load += 1 + len(line) // self._unit
        if self._load * 2 >= self._size:
            self.tight = True
            self.full = self.full or self._load >= self._size

    async def run(self) -> None:
        """Write until :meth:`stop`."""
        loop, began = asyncio.get_running_loop(), -GATHER_SECONDS
        while True:
            await self._wake.wait()
            self._wake.clear()
            pause = began + GATHER_SECONDS - loop.time()
            if pause > 0 and not self._stopping:
                await asyncio.sleep(pause)
            began = loop.time()
            batch, self._waiting, self._load = self._waiting, [], 0
            self._in_hand = len(batch)
            while batch:
                batch, pause = await loop.run_in_executor(self._thread, self._write, batch)
                self._in_hand = len(batch)
                if batch and self._stopping:
                    log.error("%d events could not be written before the stop", len(batch))
                    break
                await asyncio.sleep(pause)
            self._in_hand = 0
            if self.tight:
                self.tight = self._load * 2 >= self._size
                self.full = self._load >= self._size
                self.period += 1
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
        before = journal.next
        for start in range(0, len(batch), _PIECE):
            if journal.full:
                journal.make_room()
            if journal.full:
                return batch[start:], RETRY_SECONDS
            try:
                journal.append(batch[start : start + _PIECE])
            except OSError as error:
                self._trouble.failed(os_text(error))
                return batch[journal.next - before :], DISK_RETRY_SECONDS
            self._trouble.succeeded()
        return [], 0.0
