"""The batch writer of a journal: events are gathered on the event loop and appended by one thread."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from secmon.common.errors import os_text
from secmon.common.logfile.failure_log import FailureLog
from secmon.journal.journal import JournalWriter

MAX_EVENT = 65536
"""Bytes of one event (agent-link.md 11.2)."""
GATHER_SECONDS = 0.01
"""The shortest time between the starts of two writes: events that arrive in between share the second one."""
RETRY_SECONDS = 0.05
"""Pause before the next try when the journal is full."""
DISK_RETRY_SECONDS = 1.0
"""Pause before the next try when the disk refuses the write."""
PIECE = 4096
"""Events appended between two checks of the journal's room."""


class BatchWriter:
    """Gathers events and writes them in batches. The sources keep the bound: they watch :attr:`half_full` and
    :attr:`full`, and wait or drop.

    An event after a pause is written at once; under load, batches start ``GATHER_SECONDS`` apart. Events that do not
    fit, because a reader of the journal is behind or the disk is full, stay in memory and are tried again.
    """

    def __init__(
        self,
        journal: JournalWriter,
        *,
        size: int,
        max_bytes: int,
        log: logging.Logger,
        what: str,
    ) -> None:
        """``size``: events that may wait for the writing thread; ``max_bytes``: bytes of them, however few they are.

        ``what`` names the events in ``log`` and in errors.
        """
        self.journal = journal
        self.size = size
        self.on_room: Callable[[], None] = lambda: None
        """Called on the loop after each write that makes room."""
        self.full = False
        self.half_full = False
        """Half of ``size`` is taken; true until these events are in the journal."""
        self.period = 0
        """Grows with each write that makes room: shares of the room are per period."""
        self.load = 0
        """Events that wait for the writing thread, as :meth:`cost` counts them."""
        self._cost_unit = max(1, max_bytes // size)
        self._waiting: list[bytes] = []
        self._in_flight = 0
        self._added = 0
        self._written = 0
        self._acknowledgements: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self._stopping = False
        self._log = log
        self._what = what
        self._trouble = FailureLog(log, f"{what} wait because they cannot be written", f"{what} are written again")

    @property
    def trouble(self) -> str:
        """Why the disk refuses writes; empty while it accepts them."""
        return self._trouble.reason

    @property
    def usage(self) -> int:
        """Events that are not in the journal yet."""
        return len(self._waiting) + self._in_flight

    def cost(self, size: int) -> int:
        """What an event of ``size`` bytes takes of :attr:`size`: a long event counts as several."""
        return 1 + size // self._cost_unit

    def add(self, event: bytes) -> None:
        """Take an event, cut at 65536 bytes. It is taken even when :attr:`full`."""
        if len(event) > MAX_EVENT:
            event = event[:MAX_EVENT]
        waiting = self._waiting
        if not waiting:
            self._wake.set()
        waiting.append(event)
        self._added += 1
        self.load += 1 + len(event) // self._cost_unit
        if self.load * 2 >= self.size:
            self.half_full = True
            self.full = self.full or self.load >= self.size

    async def store(self, events: Sequence[bytes]) -> None:
        """Take ``events`` and return when all of them are in the journal.

        Raises BlockingIOError when there is no room, and when the writer stops before they are written.
        """
        if not events:
            return
        if self.full or self._stopping:
            raise BlockingIOError(f"the journal of {self._what.lower()} is full")
        for event in events:
            self.add(event)
        future = asyncio.get_running_loop().create_future()
        self._acknowledgements.append((self._added, future))
        await future

    async def run(self) -> None:
        """Write until :meth:`stop`. What cannot be written at a stop is logged."""
        loop, began = asyncio.get_running_loop(), -GATHER_SECONDS
        while True:
            await self._wake.wait()
            self._wake.clear()
            pause = began + GATHER_SECONDS - loop.time()
            if pause > 0 and not self._stopping:
                await asyncio.sleep(pause)
            began = loop.time()
            batch, self._waiting, self.load = self._waiting, [], 0
            if not await self._write_batch(batch):
                self._abandon()
                return
            self._update_room()
            if self._waiting:
                self._wake.set()
            elif self._stopping:
                return

    def stop(self) -> None:
        """Let :meth:`run` return when everything is written."""
        self._stopping = True
        self._wake.set()

    def close(self) -> None:
        """Close the journal; :meth:`run` must have returned."""
        self._thread.shutdown()
        self.journal.close()

    async def _write_batch(self, batch: list[bytes]) -> bool:
        """Write ``batch``, trying again until it is written; False when a try fails after :meth:`stop`."""
        loop = asyncio.get_running_loop()
        self._in_flight = len(batch)
        while batch:
            written, pause = await loop.run_in_executor(self._thread, self._append, batch)
            batch = batch[written:]
            self._in_flight = len(batch)
            self._written += written
            self._acknowledge()
            if batch and self._stopping:
                return False
            await asyncio.sleep(pause)
        return True

    def _append(self, batch: list[bytes]) -> tuple[int, float]:
        """In the thread: the number of events written, and the seconds to wait before the next try."""
        journal = self.journal
        before = journal.next
        for start in range(0, len(batch), PIECE):
            if journal.full:
                journal.make_room()
            if journal.full:
                return start, RETRY_SECONDS
            try:
                journal.append(batch[start : start + PIECE])
            except OSError as error:
                self._trouble.failed(os_text(error))
                return journal.next - before, DISK_RETRY_SECONDS
            self._trouble.succeeded()
        return len(batch), 0.0

    def _update_room(self) -> None:
        """After a batch: sources that wait get their turn, even if others have filled half of the room meanwhile."""
        if self.half_full:
            self.half_full = self.load * 2 >= self.size
            self.full = self.load >= self.size
            self.period += 1
            self.on_room()

    def _acknowledge(self) -> None:
        while self._acknowledgements and self._acknowledgements[0][0] <= self._written:
            _, future = self._acknowledgements.popleft()
            if not future.done():
                future.set_result(None)

    def _abandon(self) -> None:
        """Log the events that are lost at the stop, and fail the calls of :meth:`store` that wait for them."""
        self._log.error("%s: %d could not be written before the stop", self._what, self.usage)
        for _, future in self._acknowledgements:
            if not future.done():
                future.set_exception(BlockingIOError(f"the journal of {self._what.lower()} is closed"))
        self._acknowledgements.clear()
