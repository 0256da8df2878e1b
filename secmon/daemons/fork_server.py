"""A process that has loaded the code of the daemons and forks them: a daemon is there as soon as it is asked for.

It keeps one thread and opens nothing, so that what it forks is as good as new. Its children stay on record until the
supervisor asks how they ended, so that a process id is never another's. It ends when the supervisor does; its own
death costs nothing but a new one at the next start.
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

from secmon.common.paths import Paths
from secmon.common.privileges import find_account, is_root, root_ids
from secmon.daemons import entry
from secmon.daemons.daemon import StartFailed
from secmon.daemons.installation_files import restore_folders

NEEDED_FOLDERS = ("queue", "queue/sockets", "var/run", "backup", "backup/agents")
"""Folders that a node cannot work without, and that only root can make."""
_MESSAGE = 1 << 16
"""Bytes of a request or an answer, at most."""


class ForkServer:
    """The supervisor's side. The process is started by the first :meth:`fork`, and again when it has died."""

    def __init__(self, modules: Iterable[str]) -> None:
        """``modules``: what to load beforehand."""
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
        """How the child ``pid`` has ended: its status, minus a signal; None when it is no longer known."""
        async with self._one_at_a_time:
            return await self._ask(served_by, pid, []) if served_by is self._socket else None

    async def restore(self, root: Path) -> None:
        """Make those of :data:`NEEDED_FOLDERS` that are gone, with the rights the node was started with.

        Raises OSError.
        """
        async with self._one_at_a_time:
            number = await self._ask(self._socket, str(root), []) if self._socket is not None else 0
        if number:
            raise OSError(number, os.strerror(number), str(root))

    async def close(self) -> None:
        """End the process; children go on."""
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
            # -P: the folder that the operator happens to stand in is not searched for modules.
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
        """The number answered; None when the process has died. An exchange that is cut short ends it."""
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
    """One child. Its end is noticed at once and wakes all waiters."""

    def __init__(self, server: ForkServer, served_by: socket.socket, pid: int) -> None:
        self.pid = pid
        self._server, self._served_by = server, served_by
        self._running = True
        self._end = asyncio.create_task(self._watch())

    @property
    def running(self) -> bool:
        return self._running

    async def wait(self) -> int | None:
        """Wait for the end: the status, minus a signal; None when it is not known."""
        return await asyncio.shield(self._end)

    def signal(self, number: int) -> None:
        """To the process."""
        if self._running:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """With all that it has started; just forked, it may not be at the head of its group yet."""
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

    A request is a list of arguments, which comes with a descriptor and is answered with a process id; or the id of a
    child that has ended, answered with its status; or an installation, whose missing folders are created again,
    answered with the number of an error.
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
    """Load, serve, and in each child: be a daemon; returns the process status."""
    parser = argparse.ArgumentParser(prog="secmon-forkserver", description=__doc__)
    parser.add_argument("descriptor", type=int, help="inherited socket to the supervisor")
    parser.add_argument("modules", nargs="*", help="what to load beforehand")
    options = parser.parse_args()
    setproctitle("secmon-forkserver")
    for module in options.modules:
        with suppress(ImportError):  # the child that needs it says so
            import_module(module)
    gc.collect()
    gc.freeze()  # what is loaded stays shared between the children
    with socket.socket(fileno=options.descriptor) as requests:
        requests.set_inheritable(False)
        arguments = _serve(requests)
    if arguments is None:
        return 0
    gc.unfreeze()
    setproctitle(" ".join(arguments[:3]))
    status = entry.main(arguments)
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)  # at once: taking apart what was loaded takes longer than all the rest of a stop


if __name__ == "__main__":
    sys.exit(main())
