"""Notifies another daemon of this node that there is work for it, by an empty datagram.

If one is lost, the daemon finds the work at its next periodic look.
"""

import asyncio
import logging
import socket
from contextlib import suppress
from pathlib import Path

log = logging.getLogger("secmon.wakeups")


def wake(path: Path) -> None:
    """Notify the listener at ``path``, if there is one. Never blocks."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
        sender.setblocking(False)
        sender.sendto(b"", str(path))


class WakeupListener:
    """The receiving end. Used on one event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._woken = asyncio.Event()

    def set(self) -> None:
        """End the current or the next wait, from this process."""
        self._woken.set()

    async def wait(self, seconds: float) -> None:
        """Return at a notification since the last wait, or after ``seconds``."""
        self._listen()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()

    def close(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
            self._path.unlink(missing_ok=True)

    def _listen(self) -> None:
        """Open the socket if it is not there, also after its removal. Without it, waits end by time only."""
        if self._socket is not None and self._path.exists():
            return
        self.close()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            made.setblocking(False)
            self._path.unlink(missing_ok=True)
            made.bind(str(self._path))
            self._path.chmod(0o660)
        except OSError as error:
            made.close()
            log.warning("%s cannot be opened: %s", self._path, error.strerror or error)
            return
        self._socket = made
        asyncio.get_running_loop().add_reader(made, self._received, made)

    def _received(self, receiver: socket.socket) -> None:
        with suppress(BlockingIOError):
            while True:
                receiver.recv(16)
                self._woken.set()
