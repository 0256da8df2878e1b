"""Events of this node's own sources on their way into a journal of their own, acknowledged when they are in it."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from secmon.common.errors import os_text
from secmon.common.files.same_file import FileId, file_id
from secmon.journal.journal import JournalWriter

log = logging.getLogger("secmon.analysisd")

MAX_MESSAGE = 65535
"""Bytes of one message (ruleset.md 4.1)."""
MAX_BYTES = 32 << 20
"""Bytes that may wait, however few messages they are."""
GATHER_SECONDS = 0.005
_AT_ONCE = 1000
RETRY_SECONDS = 0.05
DISK_RETRY_SECONDS = 1.0


class Intake:
    """Gathers on the loop, writes in a thread of its own. Bounded: while :attr:`full`, sources wait."""

    def __init__(self, journal: JournalWriter, *, size: int) -> None:
        """``size`` in messages."""
        self.journal = journal
        self.size = size
        self.trouble = ""
        """Why nothing can be written just now."""
        self.on_room: Callable[[], None] = lambda: None
        """Called whenever there is room after something was written."""
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._in_hand = 0
        self._stored = 0
        self._taken = 0
        self._acknowledgements: list[tuple[int, asyncio.Future[None]]] = []
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="intake")
        self._stopping = False

    @property
    def usage(self) -> int:
        """Messages that are not in the journal yet."""
        return len(self._waiting) + self._in_hand

    @property
    def full(self) -> bool:
        return self.usage >= self.size or self._bytes >= MAX_BYTES

    def add(self, messages: Sequence[bytes]) -> None:
        """Take messages without saying when they are stored."""
        self._waiting += messages
        self._taken += len(messages)
        self._bytes += sum(map(len, messages))
        self._wake.set()

    async def store(self, messages: Sequence[bytes]) -> None:
        """Return when all of ``messages`` are in the journal. Raises BlockingIOError while it is full."""
        if not messages:
            return
        if self.full or self._stopping:
            raise BlockingIOError("the journal of local events is full")
        self.add(messages)
        future = asyncio.get_running_loop().create_future()
        self._acknowledgements.append((self._taken, future))
        await future

    async def run(self) -> None:
        """Write until :meth:`stop`."""
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not self._stopping:
                await asyncio.sleep(GATHER_SECONDS)
            batch, self._waiting, self._bytes = self._waiting, [], 0
            while batch:
                self._in_hand = len(batch)
                written, pause = await loop.run_in_executor(self._thread, self._write, batch)
                self._stored += written
                batch = batch[written:]
                self._acknowledge()
                if batch and self._stopping:
                    log.error("%d local events could not be stored before the stop", len(batch))
                    break
                await asyncio.sleep(pause)
            self._in_hand = 0
            if not self.full:
                self.on_room()
            if self._waiting:
                self._wake.set()
            elif self._stopping:
                self._refuse()
                return

    def stop(self) -> None:
        """Let :meth:`run` end when everything is written."""
        self._stopping = True
        self._wake.set()

    def close(self) -> None:
        """Call after the end of :meth:`run`: closes the journal."""
        self._thread.shutdown()
        self.journal.close()

    def _acknowledge(self) -> None:
        while self._acknowledgements and self._acknowledgements[0][0] <= self._stored:
            _, future = self._acknowledgements.pop(0)
            if not future.done():
                future.set_result(None)

    def _refuse(self) -> None:
        for _, future in self._acknowledgements:
            if not future.done():
                future.set_exception(BlockingIOError("the analysis stops"))
        self._acknowledgements.clear()

    def _write(self, batch: list[bytes]) -> tuple[int, float]:
        """In the thread: how many were written, and the seconds to wait before the next try."""
        journal = self.journal
        if journal.full:
            journal.make_room()
        if journal.full:
            return 0, RETRY_SECONDS
        before = journal.next
        try:
            journal.append(batch)
        except OSError as error:
            if not self.trouble:
                log.error("Local events wait, none is lost: %s", os_text(error))
            self.trouble = os_text(error)
            return journal.next - before, DISK_RETRY_SECONDS
        if self.trouble:
            log.info("Local events are stored again")
            self.trouble = ""
        return len(batch), 0.0


class DatagramSource:
    """The socket of existing tools: each datagram is a message. While the intake is full, senders wait."""

    def __init__(self, path: Path, intake: Intake) -> None:
        self._path = path
        self._intake = intake
        self._socket: socket.socket | None = None
        self._file: FileId = (0, 0)
        self._paused = True
        self.received = 0

    def open(self) -> None:
        """Listen; a stale socket is replaced. Raises OSError."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        aside = self._path.with_name(f"{self._path.name}~")
        aside.unlink(missing_ok=True)
        try:
            made.bind(str(aside))
            os.chmod(aside, 0o660)
            self._file = file_id(aside)
            made.setblocking(False)
            with suppress(OSError):
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            os.replace(aside, self._path)
        except BaseException:
            made.close()
            raise
        self._socket = made
        self.resume()

    def resume(self) -> None:
        """Read again, if it was full."""
        if self._socket is not None and self._paused:
            self._paused = False
            asyncio.get_running_loop().add_reader(self._socket.fileno(), self._read)

    def tend(self) -> None:
        """Listen anew when the socket was removed from its folder; what it holds is taken. Raises OSError."""
        before = self._socket
        if before is None or file_id(self._path) == self._file:
            return
        asyncio.get_running_loop().remove_reader(before.fileno())
        self._paused = True
        try:
            self.open()
        except OSError:
            self.resume()
            raise
        with before:
            while self._take(before):
                pass
        log.warning("%s was removed and is made anew", self._path)

    def close(self) -> None:
        if self._socket is not None:
            self._path.unlink(missing_ok=True)
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._read()
            self._socket.close()
            self._socket = None

    def _read(self) -> None:
        """Take what is there, some of it at once."""
        assert self._socket is not None, "open"
        self._take(self._socket)
        if self._intake.full and not self._paused:
            self._paused = True
            asyncio.get_running_loop().remove_reader(self._socket.fileno())

    def _take(self, source: socket.socket) -> int:
        """How many messages there were, at most so many at once."""
        messages: list[bytes] = []
        with suppress(BlockingIOError, InterruptedError):
            while len(messages) < _AT_ONCE:
                messages.append(source.recv(MAX_MESSAGE + 1)[:MAX_MESSAGE].rstrip(b"\0"))
        self.received += len(messages)
        if messages:
            self._intake.add(messages)
        return len(messages)
