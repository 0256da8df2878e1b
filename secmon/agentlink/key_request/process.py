"""A program of the operator: started without a shell, and ended with its children."""

import asyncio
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""Variables of the daemon's environment that the program gets."""
_END_SECONDS = 5.0
"""Wait for the end of a killed process."""


class Process:
    """Runs in a session of its own. Leaving the context before :meth:`wait` has returned kills it."""

    def __init__(self, process: asyncio.subprocess.Process, output: asyncio.StreamReader, pipe: asyncio.ReadTransport):
        self.output = output
        """Its standard output. Its error output is discarded: it may hold keys."""
        self._process = process
        self._pipe = pipe
        self._over = False

    @classmethod
    async def start(cls, command: Sequence[str], folder: Path) -> Self:
        """Raises OSError when the program cannot be run.

        The pipe is made here because the one of the library stays open as long as any descendant lives.
        """
        ours, theirs = os.pipe()
        try:
            output = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(output)
            pipe, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(ours, "rb", 0))
            try:
                process = await _start(command, folder, theirs)
            except BaseException:
                pipe.close()
                raise
        finally:
            os.close(theirs)
        return cls(process, output, pipe)

    async def wait(self) -> int:
        """The exit status; negative: the number of the signal that ended it."""
        status = await self._process.wait()
        self._over = True
        return status

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe.close()
        if not self._over:
            await self._kill()

    async def _kill(self) -> None:
        """Kill the whole session, and descendants that have left it."""
        pid = self._process.pid
        strayed = _descendants(pid) if self._process.returncode is None else []
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        for one in strayed:
            with suppress(psutil.Error):
                one.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await self._process.wait()


async def _start(command: Sequence[str], folder: Path, output: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=folder,
        env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
        start_new_session=True,
    )


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
