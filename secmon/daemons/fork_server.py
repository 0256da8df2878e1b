"""A process that has loaded the code of the daemons and forks them, so that a daemon starts at once.

It keeps one thread and opens no files, so that its children start clean. It reaps a child when the supervisor asks for
its status, so that the process id is not used again before. It ends with the supervisor. When it dies, the next start
of a daemon starts another one.
"""

import argparse
import asyncio
import errno
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import msgspec
from setproctitle import setproctitle

from secmon.common.collector import collector_paused
from secmon.common.paths import Paths
from secmon.common.privileges import find_account, is_root, root_ids
from secmon.daemons import entry
from secmon.daemons.daemon import StartFailed
from secmon.daemons.installation_files import restore_folders

NEEDED_FOLDERS = ("queue", "queue/sockets", "var/run", "backup", "backup/agents")
"""Folders that a node needs and that only root can create."""
_MESSAGE = 1 << 16
"""Bytes of a request or an answer, at most."""


class ForkServer:
    """The supervisor's side. The first :meth:`fork` starts the process, and later ones after its death."""

    def __init__(self, modules: Iterable[str]) -> None:
        """``modules`` to load before the first fork."""
        self._modules = sorted(set(modules))
        self._socket: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._one_at_a_time = asyncio.Lock()

    async def fork(self, arguments: Sequence[str], descriptor: int) -> "ForkedProcess":
        """Run :func:`entry.main` with ``arguments`` and a copy of ``descriptor``. Raises StartFailed."""
        async with self._one_at_a_time:
            for _ in range(2):
                served_by = self._socket or await self._launch()
                pid = await self._ask(served_by, list(arguments), [descriptor])
                if pid is not None:
                    return ForkedProcess(self, served_by, pid)
        raise StartFailed("the process that forks daemons has ended")

    async def status(self, served_by: socket.socket, pid: int) -> int | None:
        """The exit status of the child ``pid``, or minus a signal; None when it is not known any more."""
        async with self._one_at_a_time:
            return await self._ask(served_by, pid, []) if served_by is self._socket else None

    async def restore(self, root: Path) -> None:
        """Create those of :data:`NEEDED_FOLDERS` that are missing, with the rights the node was started with.

        Raises OSError.
        """
        async with self._one_at_a_time:
            number = await self._ask(self._socket, str(root), []) if self._socket is not None else 0
        if number:
            raise OSError(number, os.strerror(number), str(root))

    async def close(self) -> None:
        """End the process; its children keep running."""
        self._hang_up()
        if self._process is not None:
            await self._process.wait()

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def _launch(self) -> socket.socket:
        await self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            # -P: modules are not searched in the current folder.
            command = [sys.executable, "-P", "-m", "secmon.daemons.fork_server", str(theirs.fileno()), *self._modules]
            self._process = await asyncio.create_subprocess_exec(
                *command,
                pass_fds=(theirs.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
                **root_ids(),
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._socket = ours
        return ours

    async def _ask(self, served_by: socket.socket, request: object, descriptors: list[int]) -> int | None:
        """The number answered; None when the process has died. A cancelled exchange ends the process."""
        answer = b""
        try:
            with suppress(ConnectionError):
                socket.send_fds(served_by, [msgspec.json.encode(request)], descriptors)
                answer = await asyncio.get_running_loop().sock_recv(served_by, _MESSAGE)
        finally:
            if not answer:
                self._hang_up()
        return msgspec.json.decode(answer, type=int) if answer else None


class ForkedProcess:
    """One child. All waiters learn its end at once."""

    def __init__(self, server: ForkServer, served_by: socket.socket, pid: int) -> None:
        self.pid = pid
        self._server, self._served_by = server, served_by
        self._running = True
        self._end = asyncio.create_task(self._watch())

    @property
    def running(self) -> bool:
        return self._running

    async def wait(self) -> int | None:
        """Wait for the end: the exit status, or minus a signal; None when it is not known."""
        return await asyncio.shield(self._end)

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        if self._running:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it and its children. Just after the fork it may not lead its process group yet."""
        for send in (os.killpg, os.kill) if self._running else ():
            with suppress(ProcessLookupError):
                send(self.pid, signal.SIGKILL)

    async def _watch(self) -> int | None:
        with suppress(ProcessLookupError):
            await _readable(os.pidfd_open(self.pid))
        self._running = False
        return await self._server.status(self._served_by, self.pid)


async def _readable(descriptor: int) -> None:
    """Wait, then close it."""
    loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
    loop.add_reader(descriptor, lambda: None if future.done() else future.set_result(None))
    try:
        await future
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


# -- the process itself


def _serve(requests: socket.socket) -> list[str] | None:
    """Fork for each request; returns the arguments in each child, and None here when the supervisor is gone.

    A request is a list of arguments with a descriptor (answer: a process id), the id of a child that has ended (answer:
    its status), or an installation whose missing folders are to be created (answer: an error number or 0).
    """
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, _MESSAGE, 1)
        if not message:
            return None
        request = msgspec.json.decode(message, type=list[str] | int | str)
        if isinstance(request, int):
            answer = os.waitstatus_to_exitcode(os.waitpid(request, 0)[1])
        elif isinstance(request, str):
            answer = _restore(Paths(Path(request)))
        else:
            answer = os.fork()
            if answer == 0:
                os.setsid()
                return [*request, "--channel-fd", str(descriptors[0])]
            os.close(descriptors[0])
        with suppress(ConnectionError):
            requests.send(msgspec.json.encode(answer))


def _restore(paths: Paths) -> int:
    account = find_account() if is_root() else None
    try:
        restore_folders(paths, NEEDED_FOLDERS, (account.uid, account.gid) if account else None)
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def main() -> int:
    """Load and serve; in each child run a daemon. Returns the process status."""
    parser = argparse.ArgumentParser(prog="secmon-forkserver", description=__doc__)
    parser.add_argument("descriptor", type=int, help="inherited socket to the supervisor")
    parser.add_argument("modules", nargs="*", help="modules to load before the first fork")
    options = parser.parse_args()
    setproctitle("secmon-forkserver")
    with collector_paused():
        for module in options.modules:
            with suppress(ImportError):  # the child that needs it reports it
                import_module(module)
    gc.collect()
    gc.freeze()  # what is loaded stays shared between the children
    with socket.socket(fileno=options.descriptor) as requests:
        requests.set_inheritable(False)
        arguments = _serve(requests)
    if arguments is None:
        return 0
    setproctitle(" ".join(arguments[:3]))
    status = entry.main(arguments)
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)  # at once: the interpreter's own shutdown takes longer than the rest of a stop


if __name__ == "__main__":
    sys.exit(main())
