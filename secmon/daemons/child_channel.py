"""The inherited socket between a supervisor and one of its processes.

Down: one JSON line with secrets, so that they stand in no argument list and no environment. Up: ``ready`` or
``failed <reason>``. Its end tells each side that the other is gone, however it died.
"""

import asyncio
import socket
from collections.abc import Mapping
from contextlib import suppress

import msgspec

_READY = b"ready"
_FAILED = b"failed "


class ChildLink:
    """The child's end. Reads the secrets at once, blocking; ``descriptor`` is inherited."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)
        with self._socket.makefile("rb", buffering=0) as stream:
            line = stream.readline()
        self.orphaned = not line
        """The starter was gone before it had sent them."""
        self.secrets: Mapping[str, str] = msgspec.json.decode(line, type=dict[str, str]) if line else {}

    def ready(self) -> None:
        self._say(_READY)

    def failed(self, reason: str) -> None:
        self._say(_FAILED + " ".join(reason.split()).encode())

    async def supervisor_gone(self) -> None:
        """Wait until the other end is closed; nothing else ever comes after the secrets."""
        loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        with suppress(ConnectionError):
            while await loop.sock_recv(self._socket, 4096):
                pass

    def _say(self, message: bytes) -> None:
        try:
            self._socket.send(message + b"\n")
        except OSError:
            return  # the supervisor is gone: nobody is left to be told


class ParentLink:
    """The starter's end; ``child`` is the descriptor to pass on."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._said = b""

    @property
    def child(self) -> int:
        return self._theirs.fileno()

    def opened(self, secrets: Mapping[str, str]) -> None:
        """To be called when the child has its copy: sends the secrets."""
        self._theirs.close()
        with suppress(ConnectionError):  # a child that has died already is found by ``outcome``
            self._ours.sendall(msgspec.json.encode(secrets) + b"\n")
        self._ours.setblocking(False)

    async def outcome(self) -> str | None:
        """Wait for the child's word: ``None`` when it is ready, else the reason why it is not."""
        loop = asyncio.get_running_loop()
        with suppress(ConnectionError):
            while not self._said.endswith(b"\n") and (chunk := await loop.sock_recv(self._ours, 4096)):
                self._said += chunk
        line = self._said.strip()
        if line == _READY:
            return None
        return line.removeprefix(_FAILED).decode("utf-8", "replace") or "it ended before it was ready"

    def close(self) -> None:
        """Let go of both ends; the child takes that as the end of its starter."""
        self._theirs.close()
        self._ours.close()
