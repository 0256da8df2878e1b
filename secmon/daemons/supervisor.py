"""The supervisor: keeps the daemons of one node running, and stops, reloads and restarts them when asked."""

import asyncio
import logging
import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from secmon.cluster.store_checks import migrate_stores
from secmon.common.background import Background, cancel
from secmon.common.backoff import Backoff
from secmon.common.clock import Clock, SystemClock
from secmon.common.counters import Counters
from secmon.common.errors import ConfigError, SecmonError
from secmon.common.ipc.commands import CommandServer
from secmon.common.paths import Paths
from secmon.common.privileges import SERVICE_USER, Account, act_as, as_root, find_account, root_started
from secmon.daemons.child_channel import ChildChannel
from secmon.daemons.control_sockets import control_server, daemon_socket
from secmon.daemons.daemon import StartFailed, start_error
from secmon.daemons.daemon_handles import DaemonHandle, ProcessHandle, daemon_handles
from secmon.daemons.daemon_host import tend
from secmon.daemons.fork_server import NEEDED_FOLDERS, ForkServer
from secmon.daemons.installation_files import restore_folders
from secmon.daemons.log_rotation import LogRotationTask
from secmon.daemons.run_files import RunFiles, daemon_states
from secmon.daemons.supervisor_lock import SupervisorLock
from secmon.daemons.supervisor_settings import SupervisorSettings
from secmon.daemons.systemd import notify
from secmon.daemons.watchdog import WatchSettings, until_hung

log = logging.getLogger("secmon.supervisor")

SettingsReader = Callable[[], SupervisorSettings]
"""Reads and validates the configuration. Raises SecmonError when it is not valid."""

_IN_USE_TRIES = 3
"""Starts of a daemon whose address is in use, before the first start of the node is given up."""


class Supervisor:
    """One per installation. :meth:`run` returns when the node has stopped."""

    def __init__(
        self,
        paths: Paths,
        read_settings: SettingsReader,
        *,
        secrets: Mapping[str, str] | None = None,
        single_process: bool = False,
        channel: ChildChannel | None = None,
        bound: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self._paths = paths
        self._read_settings = read_settings
        self._secrets = dict(secrets or {})
        self._single_process = single_process
        self._channel = channel
        self._bound = bound
        self._clock = clock or SystemClock()
        self._run = RunFiles(paths.run)
        self._daemons: list[DaemonHandle] = []
        self._server: ForkServer | None = None
        self._tasks, self._keepers = Background(), Background()
        self._watch: WatchSettings | None = None
        self._restarts: Counter[str] = Counter()
        self._hangs: Counter[str] = Counter()
        self._phase = "starting"
        self._work: asyncio.Queue[str] = asyncio.Queue()
        self._restart_accepted = False
        self._ending = asyncio.Event()

    async def run(self) -> int:
        """Start the node and supervise it until it is stopped; returns the process status.

        With a ``channel`` the starter learns how the start went; ``bound``: the node stops when the starter is gone.

        Raises AlreadyRunning, and SecmonError when the configuration is not valid; then nothing was started.
        """
        lock = SupervisorLock(self._paths.root)
        lock.acquire()
        try:
            settings = self._read_settings()
            account = find_account(settings.user or SERVICE_USER)
            with as_root():
                restore_folders(self._paths, NEEDED_FOLDERS, (account.uid, account.gid) if account else None)
            _act_for(settings)
            self._run = RunFiles(self._paths.run, account)
            self._run.clear_all()
            control = control_server(self._paths.control_socket, self._answer, account)
            await control.open()
            self._tasks.keep("run files", lambda: tend(lambda: self._tend(control, account)))
            try:
                return await self._supervise(settings)
            finally:
                await self._tasks.stop()
                await control.close()
        finally:
            lock.release()

    async def _tend(self, control: CommandServer, account: Account | None) -> None:
        """Put back what was removed under the node: folders, which only root may make, and the socket."""
        if any(not (self._paths.root / name).is_dir() for name in NEEDED_FOLDERS):
            if self._server is not None:
                await self._server.restore(self._paths.root)
            else:
                restore_folders(self._paths, NEEDED_FOLDERS, (account.uid, account.gid) if account else None)
        await control.tend()

    async def _supervise(self, settings: SupervisorSettings) -> int:
        self._watch_signals()
        for note in settings.notes:
            log.warning("%s", note)
        ending = asyncio.create_task(self._ending.wait())
        working = asyncio.create_task(self._start_and_work(settings))
        gone = asyncio.create_task(self._channel.supervisor_gone()) if self._channel and self._bound else None
        waits = {ending, working} | ({gone} if gone else set())
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        failed = working.done()
        await cancel(*waits)
        await self._tasks.stop("logs")
        self._ending.set()
        notify("STOPPING=1")
        await self._stop_all()
        self._run.restarting(False)
        self._run.clear_stale()
        if failed:
            working.result()
            return 1
        log.info("secmon has stopped")
        return 0

    async def _start_and_work(self, settings: SupervisorSettings) -> None:
        """Start everything, then carry out what is asked for; returns only when the first start has failed."""
        try:
            await self._start_all(settings, first=True)
        except StartFailed as error:
            log.critical("secmon could not be started: %s", error)
            if self._channel:
                self._channel.failed(str(error))
            return
        if settings.keeper is not None:
            # One task for the logs of all processes. New settings count from the next start on. Not before the daemons
            # on this event loop have given up root's rights: it works in a thread, which would have them too.
            self._tasks.keep("logs", LogRotationTask(self._paths, settings.keeper, self._clock, Counters()).run)
        self._phase = "running"
        notify("READY=1")
        if self._channel:
            self._channel.ready()
        log.info("secmon is running")
        while True:
            match await self._work.get():
                case "restart":
                    await self._restart()
                    self._restart_accepted = False
                case "reload":
                    await self._reload()

    async def _restart(self) -> None:
        try:
            settings = self._checked_settings()
        except SecmonError as error:
            # It was valid when the restart was accepted and was changed since: only the log can report it.
            log.error("The restart is refused: %s", error.message)
            return
        log.info("secmon restarts")
        _act_for(settings)
        self._phase = "restarting"
        notify("RELOADING=1")
        self._run.restarting(True)
        try:
            await self._stop_all()
            await self._start_all(settings, first=False)
        finally:
            self._run.restarting(False)
            self._phase = "running"
        notify("READY=1")
        log.info("secmon has restarted")

    async def _reload(self) -> None:
        for daemon in self._daemons:
            await daemon.reload()
        log.info("The daemons were told to reload their configuration")

    async def _start_all(self, settings: SupervisorSettings, *, first: bool) -> None:
        """Start all at once: none waits for another. On one event loop they start one after the other.

        At the ``first`` start a failure is the caller's, once all others have started; later it is tried again instead.
        """
        try:
            settings.set_unusable_aside(self._clock)
            migrate_stores(self._paths, self._clock)
            self._daemons = daemon_handles(settings, self._paths, self._secrets, self._new_server(settings))
        except Exception as error:  # it failed in this process: one line; unknown ones are logged
            raise StartFailed(str(start_error(error))) from error
        self._watch = settings.watch
        at_once = asyncio.Semaphore(1 if self._single_process else len(self._daemons) or 1)
        async with asyncio.TaskGroup() as group:
            starts = [group.create_task(self._start_one(daemon, at_once, first=first)) for daemon in self._daemons]
        failures = [failure for start in starts if (failure := start.result()) is not None]
        if failures:
            raise failures[0]

    def _new_server(self, settings: SupervisorSettings) -> ForkServer | None:
        """A new one for each start of the node, which may have got another version of the code."""
        if not self._single_process:
            self._server = ForkServer(spec.factory.partition(":")[0] for spec in settings.daemons)
        return self._server

    async def _start_one(self, daemon: DaemonHandle, at_once: asyncio.Semaphore, *, first: bool) -> StartFailed | None:
        """Start ``daemon`` and keep it running; why it did not start, at the ``first`` start."""
        backoff = Backoff()
        async with at_once:
            try:
                await (self._start_patiently(daemon) if first else daemon.start())
                backoff.started(self._clock.monotonic())
            except StartFailed as error:
                if first:
                    failure = StartFailed(f"{daemon.name}: {error}")
                    failure.__cause__ = error
                    return failure
                _did_not_start(daemon, backoff, error)
        self._keepers.keep(daemon.name, lambda: self._keep(daemon, backoff))
        return None

    async def _start_patiently(self, daemon: DaemonHandle) -> None:
        """Start ``daemon``; an address in use is tried some times more. Raises StartFailed."""
        for _ in range(_IN_USE_TRIES - 1):
            try:
                return await daemon.start()
            except StartFailed as error:
                if not error.in_use:
                    raise
                log.warning("%s did not start: %s; next start in %g s", daemon.name, error, Backoff.IN_USE)
            await asyncio.sleep(Backoff.IN_USE)
        return await daemon.start()

    async def _keep(self, daemon: DaemonHandle, backoff: Backoff) -> None:
        """Start ``daemon`` again each time it ends."""
        while True:
            reason = await self._end_of(daemon)
            delay = backoff.ended(self._clock.monotonic())
            log.error("%s: %s; next start %s", daemon.name, reason, f"in {delay:g} s" if delay else "at once")
            self._restarts[daemon.name] += 1
            if delay:
                self._run.failed(daemon.name)
                await asyncio.sleep(delay)
            try:
                await daemon.start()
            except StartFailed as error:
                _did_not_start(daemon, backoff, error)
                continue
            backoff.started(self._clock.monotonic())

    async def _end_of(self, daemon: DaemonHandle) -> str:
        """Wait until ``daemon`` ends by itself, or is killed because it hangs; how, in words."""
        watch = f"watchdog of {daemon.name}"
        if self._watch is not None and isinstance(
            daemon, ProcessHandle
        ):  # else: when the daemon hangs, so does the watch
            self._tasks.keep(watch, partial(self._kill_when_hung, daemon, self._watch))
        try:
            return await daemon.ended()
        finally:
            await self._tasks.stop(watch)

    async def _kill_when_hung(self, daemon: ProcessHandle, watch: WatchSettings) -> None:
        while True:
            seconds = await until_hung(daemon_socket(self._paths, daemon.name), watch, self._clock)
            self._hangs[daemon.name] += 1
            self._run.failed(daemon.name)
            daemon.kill(f"it did not answer for {seconds:.0f} s and was killed")

    async def _stop_all(self) -> None:
        """End the daemons, the last started first."""
        await self._keepers.stop()
        for daemon in reversed(self._daemons):
            await daemon.stop()
        self._daemons = []
        if self._server is not None:
            await self._server.close()

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ending.set)
        loop.add_signal_handler(signal.SIGHUP, self._work.put_nowait, "reload")

    def _checked_settings(self) -> SupervisorSettings:
        """The settings of the configuration as it is now. Raises 1908, which names what is wrong."""
        try:
            settings = self._read_settings()
        except ConfigError as error:
            raise SecmonError(1908, error.extra) from error
        if settings.encrypted_key is not None and not self._secrets:
            raise SecmonError(
                1908, f"{settings.encrypted_key} has a pass phrase: stop secmon and start it on a terminal"
            )
        return settings

    async def _answer(self, command: str, request: Mapping[str, Any]) -> object:
        match command:
            case "status":
                return self._status()
            case "restart":
                self._accept_restart()
            case "reload":
                self._refuse_while_stopping()
                self._work.put_nowait("reload")
            case "stop":
                self._ending.set()
            case _:
                raise SecmonError(1014, f"unknown command {command!r}; commands: status, restart, reload, stop")
        return {"accepted": command}

    def _refuse_while_stopping(self) -> None:
        """Raises 1017: what is queued now would never be done."""
        if self._ending.is_set():
            raise SecmonError(1017, "the node is being stopped")

    def _accept_restart(self) -> None:
        """Queue a restart unless one is under way; nothing is touched when the configuration is not valid (1908).

        Raises 1017 as well.
        """
        self._refuse_while_stopping()
        if not self._restart_accepted:
            self._checked_settings()
            self._restart_accepted = True
            self._work.put_nowait("restart")

    def _status(self) -> Mapping[str, Any]:
        processes = [
            {
                "daemon": daemon.name,
                "pid": daemon.pid,
                "restarts": self._restarts[daemon.name],
                "hangs": self._hangs[daemon.name],
            }
            for daemon in self._daemons
        ]
        states = daemon_states(self._paths)
        return {
            "pid": os.getpid(),
            "phase": "stopping" if self._ending.is_set() else self._phase,
            "restart_pending": self._restart_accepted,
            "single_process": self._single_process,
            "task_restarts": {**self._tasks.restarts, **self._keepers.restarts},
            "processes": processes,
            "daemons": states,
        }


def _act_for(settings: SupervisorSettings) -> None:
    """As root, take the effective ids of the service user: this process works in that user's folders."""
    account = find_account(settings.user) if settings.user and root_started() else None
    if account is not None:
        act_as(account)


def _did_not_start(daemon: DaemonHandle, backoff: Backoff, error: StartFailed) -> None:
    log.error("%s did not start: %s", daemon.name, error)
    if error.in_use:
        backoff.in_use()
