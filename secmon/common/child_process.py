"""A program of the operator: started without a shell, bounded, and ended with its children.

It has the rights of the daemon that starts it: those of the service user.
"""

import asyncio
import os
import resource
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
"""Variables of the daemon's environment that the program gets."""
_LIMITS = {
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_AS: 2 << 30,
    resource.RLIMIT_CPU: 600,
    resource.RLIMIT_FSIZE: 1 << 30,
    resource.RLIMIT_NOFILE: 1024,
}
"""Of each process that it consists of: bytes of memory and of a file, seconds of a processor, open files."""
_END_SECONDS = 5.0
"""Wait for the end of a killed process."""


class Process:
    """Runs in a session of its own. Leaving the context before :meth:`wait` has returned kills it."""

    def __init__(
        self, process: asyncio.subprocess.Process, output: asyncio.StreamReader, pipe: asyncio.ReadTransport
    ) -> None:
        self.output = output
        """Its standard output. Its error output is discarded: it may hold keys."""
        self.input = process.stdin
        """Its standard input, where it was asked for."""
        self._process = process
        self._pipe = pipe
        self._over = False

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        folder: Path,
        *,
        environment: Mapping[str, str] | None = None,
        with_input: bool = False,
    ) -> Self:
        """Raises OSError when the program cannot be run. ``environment``: further variables.

        The pipe is made here because the one of the library stays open as long as any descendant lives.
        """
        ours, theirs = os.pipe()
        try:
            output = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(output)
            pipe, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(ours, "rb", 0))
            try:
                process = await _start(command, folder, theirs, environment or {}, with_input=with_input)
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


async def _start(
    command: Sequence[str], folder: Path, output: int, environment: Mapping[str, str], *, with_input: bool
) -> asyncio.subprocess.Process:
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE if with_input else asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=folder,
        env={**passed_on, **environment},
        start_new_session=True,
    )
    for limit, most in _LIMITS.items():
        with suppress(ProcessLookupError, PermissionError, ValueError):  # it has ended, or has a lower limit already
            resource.prlimit(process.pid, limit, (most, most))
    return process


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
