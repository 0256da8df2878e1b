"""A unix stream socket that stands as long as it is open: taken from its folder, it is made anew."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from secmon.common.files.file_id import FileId, file_id

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def for_the_group(path: Path) -> None:
    """Mode 0660, whoever owns the socket."""
    os.chmod(path, 0o660)


class UnixServer:
    """Listens at ``path`` while open; conversations are the caller's, in ``serve``."""

    def __init__(
        self,
        path: Path,
        serve: Serve,
        log: logging.Logger,
        *,
        share: Callable[[Path], None] = for_the_group,
        line: int = 1 << 16,
    ) -> None:
        """``share`` gives the socket its owner and mode; ``line``: bytes that a reader holds back at most."""
        self._path, self._serve, self._log = path, serve, log
        self._share, self._line = share, line
        self._server: asyncio.Server | None = None
        self._file: FileId = (0, 0)

    @property
    def is_open(self) -> bool:
        return self._server is not None

    async def open(self) -> None:
        """Listen. The socket appears under its name ready for use; a stale one is replaced. Raises OSError."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        aside = self._path.with_name(f"{self._path.name}~")
        aside.unlink(missing_ok=True)
        try:
            listener.bind(str(aside))
            self._share(aside)
            self._file = file_id(aside)
            self._server = await asyncio.start_unix_server(self._serve, sock=listener, backlog=1024, limit=self._line)
            os.replace(aside, self._path)
        except BaseException:
            listener.close()
            raise

    async def tend(self) -> None:
        """Listen anew when the socket was removed from its folder; conversations under way go on. Raises OSError."""
        before = self._server
        if before is not None and file_id(self._path) != self._file:
            await self.open()
            before.close()
            self._log.warning("%s was removed and is made anew", self._path)

    def close(self) -> None:
        """Take nothing new; conversations under way go on."""
        if self._server is not None:
            self._path.unlink(missing_ok=True)
            self._server.close()
            self._server = None
