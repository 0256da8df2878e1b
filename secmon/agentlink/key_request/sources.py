"""Sources of keys: a program that is run for each request, or a socket (agent-link.md 2.5).

The id or address is one the link has parsed, and still it is an argument of its own: no shell sees it.
"""

import asyncio
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from secmon.agentlink.key_request.answer import MAX_ANSWER, is_whole
from secmon.agentlink.key_request.failures import Failed, TimedOut
from secmon.agents.link.wire import MissingKey
from secmon.common.child_process import Process
from secmon.common.errors import os_text
from secmon.config.auth import KeyRequest


class Source(Protocol):
    """A source of keys, used concurrently. Cancelling a request ends the program or connection that it started."""

    async def request(self, missing: MissingKey) -> bytes:
        """The unparsed answer. Raises Failed, TimedOut."""


def source_of(settings: KeyRequest, root: Path) -> Source | None:
    """The configured source, the program before the socket; None without one. Names are relative to ``root``.

    Raises ValueError for a command with an open quotation mark.
    """
    command = shlex.split(settings.exec_path)
    if command:
        return Program([str(root / command[0]), *command[1:]], folder=root, timeout_seconds=settings.timeout)
    if settings.socket:
        return Socket(root / settings.socket, timeout_seconds=settings.timeout)
    return None


class Program:
    """A program with ``id`` or ``ip`` and the value as its last two arguments; its standard output is the answer."""

    def __init__(self, command: Sequence[str], *, folder: Path, timeout_seconds: float) -> None:
        """``folder``: its working directory."""
        self._command = tuple(command)
        self._folder = folder
        self._seconds = timeout_seconds

    def __str__(self) -> str:
        return self._command[0]

    async def request(self, missing: MissingKey) -> bytes:
        """As ``Source.request``. The exit status is ignored when there is an answer, which has its own error."""
        try:
            process = await Process.start((*self._command, missing.kind, missing.value), self._folder)
        except OSError as error:
            raise Failed(f"{self} cannot be run: {error.strerror or error}") from None
        async with process:
            try:
                async with asyncio.timeout(self._seconds):
                    answer = await _read(process.output)
                    status = await process.wait()
            except TimeoutError:
                raise TimedOut(f"{self} has not answered within {self._seconds} s") from None
        if not answer.strip():
            raise Failed(f"{self} has ended with status {status} and no answer")
        return answer


class Socket:
    """A stream socket of this host that answers ``id:VALUE`` or ``ip:VALUE``; one connection for each request."""

    def __init__(self, path: Path, *, timeout_seconds: float) -> None:
        self._path = path
        self._seconds = timeout_seconds

    def __str__(self) -> str:
        return str(self._path)

    async def request(self, missing: MissingKey) -> bytes:
        """As ``Source.request``. The answer ends with its JSON object, or when the other side closes."""
        try:
            async with asyncio.timeout(self._seconds):
                return await self._converse(str(missing).encode())
        except TimeoutError:
            raise TimedOut(f"{self} has not answered within {self._seconds} s") from None
        except OSError as error:
            raise Failed(f"{self} cannot be asked: {os_text(error)}") from None

    async def _converse(self, question: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(str(self._path))
        try:
            writer.write(question)
            await writer.drain()
            answer = await _read(reader, is_whole)
        finally:
            writer.close()
        if not answer.strip():
            raise Failed(f"{self} has closed the connection without an answer")
        return answer


async def _read(reader: asyncio.StreamReader, enough: Callable[[bytes], bool] = lambda _: False) -> bytes:
    """Read to the end, or until it is ``enough``. Raises Failed for more than ``MAX_ANSWER`` bytes."""
    data = b""
    while more := await reader.read(MAX_ANSWER):
        data += more
        if len(data) > MAX_ANSWER:
            raise Failed(f"the answer is longer than {MAX_ANSWER} bytes")
        if enough(data):
            break
    return data
