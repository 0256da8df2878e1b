"""The inherited socket between a supervisor and one of its processes.

Down: one frame with secrets, so that they are in no argument list and no environment. Up: one frame, ``null`` when the
process is ready, else the reason of its failure. The end of the connection shows each side that the other has ended.
"""

import asyncio
import socket
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from secmon.common.ipc.framing import frame, take_frames

_CHUNK = 4096
ENDED = "it ended before it was ready"
"""The outcome of a process that has said neither."""


class ChildChannel:
    """The child's end. Reads the secrets at once, blocking; ``descriptor`` is inherited."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)
        secrets = self._first_frame()
        self.orphaned = secrets is None
        """The starter ended before it had sent them."""
        self.secrets: Mapping[str, str] = msgspec.json.decode(secrets, type=dict[str, str]) if secrets else {}

    def ready(self) -> None:
        self._send(None)

    def failed(self, reason: str) -> None:
        """Say why the start failed, on one line."""
        self._send(" ".join(reason.split()))

    async def supervisor_gone(self) -> None:
        """Wait until the other end is closed; it sends nothing after the secrets."""
        loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        with suppress(ConnectionError):
            while await loop.sock_recv(self._socket, _CHUNK):
                pass

    def _first_frame(self) -> bytes | None:
        received = bytearray()
        while chunk := self._socket.recv(_CHUNK):
            received += chunk
            for payload in take_frames(received):
                return payload
        return None

    def _send(self, failure: str | None) -> None:
        try:
            self._socket.sendall(frame(msgspec.json.encode(failure)))
        except OSError:
            return  # the supervisor has ended: the outcome has no reader


class ParentChannel:
    """The starter's end; ``child`` is the descriptor to pass on."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._received = bytearray()

    @property
    def child(self) -> int:
        return self._theirs.fileno()

    def opened(self, secrets: Mapping[str, str]) -> None:
        """Send the secrets. Call it when the child has its copy of the descriptor."""
        self._theirs.close()
        with suppress(ConnectionError):  # ``outcome`` reports a child that has died already
            self._ours.sendall(frame(msgspec.json.encode(secrets)))
        self._ours.setblocking(False)

    async def outcome(self) -> str | None:
        """Wait for the outcome of the start: ``None`` when the child is ready, else the reason why it is not."""
        loop = asyncio.get_running_loop()
        with suppress(ConnectionError):
            while chunk := await loop.sock_recv(self._ours, _CHUNK):
                self._received += chunk
                for payload in take_frames(self._received):
                    return msgspec.json.decode(payload, type=str | None)
        return ENDED

    def close(self) -> None:
        """Close both ends; to the child this is the end of its starter."""
        self._theirs.close()
        self._ours.close()
