"""The host of a daemon: run files, control socket, signals, privileges, and its process."""

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from secmon.common.allocator import give_back_freed_memory
from secmon.common.background import Background, cancel, ending_of
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.common.privileges import SERVICE_USER, Account, act_as, drop_to, find_account, root_started
from secmon.common.process_figures import process_figures
from secmon.daemons.child_channel import ChildChannel
from secmon.daemons.control_sockets import control_server, daemon_socket
from secmon.daemons.daemon import (
    EXIT_CRASH,
    EXIT_START,
    AnswersClients,
    Context,
    Daemon,
    Factory,
    SlowRequestsWanted,
    StartError,
    start_error,
)
from secmon.daemons.run_files import RunFiles

log = logging.getLogger("secmon.daemon")

_TEND_SECONDS = 1.0
"""Between two checks that run files and control socket exist."""
_GRACE_SECONDS = 1.0
"""Added to the daemon's own bound of a stop."""


class DaemonHost:
    """One daemon with its run files and its control socket, in a process of its own or in a shared one."""

    def __init__(
        self,
        daemon: Daemon,
        paths: Paths,
        account: Account | None,
        stop_seconds: float,
        log_counters: Counters | None = None,
    ) -> None:
        """``log_counters``: of the log of the process, if this daemon has the process to itself."""
        self.daemon = daemon
        self._log_counters = log_counters or Counters()
        self._run = RunFiles(paths.run, account)
        self._control = control_server(daemon_socket(paths, daemon.name), self._answer, account)
        self._stop_seconds = stop_seconds
        self._state = "starting"
        self._tasks = Background()

    @property
    def running(self) -> bool:
        return self._state == "running"

    async def start(self) -> None:
        """Start the daemon. On failure the run files show ``failed`` and the error is raised."""
        name = self.daemon.name
        self._run.starting(name)
        self._run.write_pid(name)
        try:
            await self.daemon.start()
            await self._control.open()
        except BaseException as error:
            await self._end(failed=isinstance(error, Exception))
            raise
        self._run.running(name)
        self._state = "running"
        self._tasks.keep("run files", lambda: tend(self._tend))
        self._tasks.keep("freed memory", give_back_freed_memory)
        log.info("%s is running", name)

    async def ended(self) -> str:
        """Wait until the daemon ends by itself; the reason is logged and returned."""
        working = asyncio.create_task(self.daemon.finished())
        try:
            await asyncio.wait({working})
        finally:
            if not working.done():
                await cancel(working)
        reason = ending_of(working)
        log.error("%s has failed: %s", self.daemon.name, reason, exc_info=_trace(working))
        return reason

    async def stop(self, *, failed: bool = False) -> None:
        """Stop within the bound; ``failed``: the run files show a failure."""
        self._state = "stopping"
        await self._end(failed=failed)
        log.info("%s has stopped", self.daemon.name)

    async def reload(self) -> None:
        """Reload. Errors of the new configuration are logged and raised; the old one stays in force."""
        try:
            await self.daemon.reload()
        except SecmonError as error:
            log.error("%s keeps its configuration: %s", self.daemon.name, error.message)
            raise
        log.info("%s has reloaded its configuration", self.daemon.name)

    async def _tend(self) -> None:
        self._run.tend_pid(self.daemon.name)
        await self._control.tend()

    async def _end(self, *, failed: bool) -> None:
        name = self.daemon.name
        await self._tasks.stop()
        try:
            async with asyncio.timeout(self._stop_seconds + _GRACE_SECONDS):
                await self.daemon.stop()
        except TimeoutError:
            log.warning("%s did not finish its work within %g s and is cut off", name, self._stop_seconds)
        except Exception:  # the run files must be written even if the stop fails; logged
            log.exception("%s failed while stopping", name)
        finally:
            await self._control.close()
            (self._run.failed if failed else self._run.stopped)(name)
            self._run.remove_pid(name)

    async def _answer(self, command: str, request: Mapping[str, Any]) -> object:
        match command:
            case "status":
                return {"daemon": self.daemon.name, "pid": os.getpid(), "status": self._state}
            case "counters":
                figures = await asyncio.to_thread(process_figures)
                counted = {**self.daemon.counters(), **self._log_counters.snapshot()}
                return {**counted, "task_restarts": self._restarts(), "process": figures}
            case "config":
                return self._config(request.get("section"))
            case "reload":
                await self.reload()
                return {"daemon": self.daemon.name}
            case "slow_requests" if isinstance(self.daemon, AnswersClients):
                return self.daemon.slow_requests(msgspec.convert(request, SlowRequestsWanted))
        raise SecmonError(1014, f"unknown command {command!r}; commands: status, counters, config, reload")

    def _restarts(self) -> dict[str, int]:
        return {**self._tasks.restarts, **self.daemon.tasks.restarts}

    def _config(self, section: object) -> object:
        config = self.daemon.active_config()
        if section is None:
            return config
        if not isinstance(section, str) or section not in config:
            raise SecmonError(1116, str(section))
        return {section: config[section]}


def _trace(task: asyncio.Task[Any]) -> BaseException | None:
    return None if task.cancelled() else task.exception()


async def tend(work: Callable[[], Awaitable[None]]) -> None:
    """Repeat ``work``, which creates files again that were removed. Repeated errors are logged once."""
    trouble = ""
    while True:
        await asyncio.sleep(_TEND_SECONDS)
        try:
            await work()
            trouble = ""
        except OSError as error:
            if str(error) != trouble:
                trouble = str(error)
                log.error("a run file or socket that was removed cannot be created again: %s", trouble)


async def serve(host: DaemonHost, channel: ChildChannel | None) -> int:
    """Run ``host`` until TERM, INT, the end of the supervisor or a failure; returns the process status."""
    loop = asyncio.get_running_loop()
    ending = asyncio.Event()
    reloads: set[asyncio.Task[None]] = set()

    async def reload() -> None:
        try:
            await host.reload()
        except SecmonError:
            return  # logged by the host; the daemon keeps its configuration

    def hang_up() -> None:
        if not host.running:
            return  # a start under way reads the new configuration
        task = loop.create_task(reload())
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    loop.add_signal_handler(signal.SIGHUP, hang_up)
    waits: list[asyncio.Task[Any]] = [loop.create_task(ending.wait())]
    if channel is not None:
        waits.append(loop.create_task(channel.supervisor_gone()))
    starting = loop.create_task(host.start())
    await asyncio.wait([*waits, starting], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return 0
    starting.result()
    if channel is not None:
        channel.ready()
    return await _until_end(host, waits)


async def _until_end(host: DaemonHost, waits: list[asyncio.Task[Any]]) -> int:
    working = asyncio.create_task(host.ended())
    await asyncio.wait([*waits, working], return_when=asyncio.FIRST_COMPLETED)
    failed = not any(wait.done() for wait in waits)
    await cancel(working, *waits)
    await host.stop(failed=failed)
    return EXIT_CRASH if failed else 0


def run_daemon(
    name: str,
    install_dir: Path,
    factory: Factory,
    *,
    user: str | None = None,
    needs_root: bool = False,
    channel: ChildChannel | None = None,
    stop_seconds: float = 30.0,
    log_counters: Counters | None = None,
) -> int:
    """Run the daemon ``name`` of the installation until it ends; returns the process status.

    ``user``: the service user to become. With ``needs_root`` the factory, which has that user's rights, can use those
    of root for a step (``common.privileges.as_root``). ``log_counters``: of the log of the process.
    A start that fails prints one line, marks the daemon failed and returns :data:`EXIT_START`.
    """
    paths = Paths(install_dir)
    account = find_account(user or SERVICE_USER)
    context = Context(name=name, paths=paths, secrets=channel.secrets if channel else {})
    try:
        if user is not None and root_started():
            if account is None:
                raise StartError(2000, f"user {user} does not exist")
            act_as(account)
            daemon = factory(context) if needs_root else None
            drop_to(account)
            daemon = daemon or factory(context)
        else:
            daemon = factory(context)
        return uvloop.run(serve(DaemonHost(daemon, paths, account, stop_seconds, log_counters), channel))
    except Exception as error:  # noqa: BLE001 - every failure becomes one line; start_error logs unknown ones
        failure = start_error(error)
        RunFiles(paths.run, account).failed(name)
        print(failure.line(name), flush=True)
        if channel is not None:
            channel.failed(str(failure))
        return EXIT_START
