"""A listening unix socket that other processes of the node find under its name, also after its file was removed."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from secmon.common.files.file_id import FileId, file_id

log = logging.getLogger("secmon.sockets")

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def share_with_group(path: Path) -> None:
    """Mode 0660; the owner does not change."""
    os.chmod(path, 0o660)


class UnixListener:
    """Accepts connections at ``path`` while open; each is served by a task."""

    def __init__(self, path: Path, serve: Serve, *, share: Callable[[Path], None] = share_with_group) -> None:
        """``share`` gives the socket owner and mode."""
        self._path, self._serve, self._share = path, serve, share
        self._server: asyncio.Server | None = None
        self._file: FileId = (0, 0)

    async def open(self) -> None:
        """Listen. The socket appears under its name ready for use; a stale one is replaced. Raises OSError."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        aside = self._path.with_name(f"{self._path.name}~")
        aside.unlink(missing_ok=True)
        try:
            listener.bind(str(aside))
            self._share(aside)
            self._file = file_id(aside)
            self._server = await asyncio.start_unix_server(self._serve, sock=listener, backlog=1024)
            os.replace(aside, self._path)
        except BaseException:
            listener.close()
            raise

    async def tend(self) -> None:
        """Listen again when the socket was removed from its folder; connections stay open. Raises OSError."""
        before = self._server
        if before is not None and file_id(self._path) != self._file:
            await self.open()
            before.close()
            log.warning("%s was removed and is created again", self._path)

    def close(self) -> None:
        """Remove the socket; connections stay open."""
        if self._server is not None:
            self._path.unlink(missing_ok=True)
            self._server.close()
            self._server = None
