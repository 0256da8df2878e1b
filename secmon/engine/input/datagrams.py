"""The datagram socket for events of this node's own tools."""

import asyncio
import logging
import os
import socket
from contextlib import suppress
from pathlib import Path

from secmon.common.files.file_id import FileId, file_id
from secmon.journal.batch_writer import BatchWriter

log = logging.getLogger("secmon.analysisd")

MAX_MESSAGE = 65535
"""Bytes of one message (ruleset.md 4.1)."""
_AT_ONCE = 1000


class DatagramSource:
    """The socket of existing tools: each datagram is an event. While the writer is full, senders wait."""

    def __init__(self, path: Path, writer: BatchWriter) -> None:
        self._path = path
        self._writer = writer
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
        """Read again after a pause, unless the writer is full."""
        if self._socket is not None and self._paused and not self._writer.full:
            self._paused = False
            asyncio.get_running_loop().add_reader(self._socket.fileno(), self._read)

    def tend(self) -> None:
        """Recreate a socket that was removed from its folder; what the old one holds is taken. Raises OSError."""
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
        log.warning("%s was removed and is created again", self._path)

    def close(self) -> None:
        if self._socket is not None:
            self._path.unlink(missing_ok=True)
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._read()
            self._socket.close()
            self._socket = None

    def _read(self) -> None:
        """Take the datagrams that wait, a bounded number at once."""
        assert self._socket is not None, "open"
        self._take(self._socket)
        if self._writer.full and not self._paused:
            self._paused = True
            asyncio.get_running_loop().remove_reader(self._socket.fileno())

    def _take(self, source: socket.socket) -> int:
        """Take at most ``_AT_ONCE`` datagrams; returns their number."""
        taken = 0
        with suppress(BlockingIOError, InterruptedError):
            while taken < _AT_ONCE:
                self._writer.add(source.recv(MAX_MESSAGE + 1)[:MAX_MESSAGE].rstrip(b"\0"))
                taken += 1
        self.received += taken
        return taken
