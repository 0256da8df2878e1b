"""The supervisor: runs the daemons of one node, and restarts, reloads and stops them on request."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

from secmon.cluster.leadership.client import LeaderClient
from secmon.cluster.leadership.role_file import CurrentRole, read_role, start_as_worker
from secmon.common.background import Background, cancel
from secmon.common.clock import Clock, SystemClock
from secmon.common.counters import Counters
from secmon.common.errors import ConfigError, SecmonError
from secmon.common.ipc.commands import CommandServer
from secmon.common.paths import Paths
from secmon.common.privileges import SERVICE_USER, act_as, as_root, find_account, root_started
from secmon.common.process_figures import process_figures
from secmon.daemons.child_channel import ChildChannel
from secmon.daemons.control_sockets import control_server
from secmon.daemons.daemon import StartFailed
from secmon.daemons.daemon_group import DaemonGroup
from secmon.daemons.daemon_host import tend
from secmon.daemons.fork_server import NEEDED_FOLDERS
from secmon.daemons.installation_files import restore_folders
from secmon.daemons.log_rotation import LogRotationTask
from secmon.daemons.role_change import NEEDED, ROLE_STOP_SECONDS, concerned
from secmon.daemons.run_files import RunFiles, daemon_states
from secmon.daemons.start_report import StartReport
from secmon.daemons.supervisor_lock import SupervisorLock
from secmon.daemons.supervisor_settings import SupervisorSettings

log = logging.getLogger("secmon.supervisor")

SettingsReader = Callable[[], SupervisorSettings]
"""Reads and validates the configuration. Raises SecmonError when it is not valid."""


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
        log_counters: Counters | None = None,
    ) -> None:
        """``channel`` to the process that started this one; ``bound``: the node stops when that process ends.

        ``secrets`` were typed on the terminal. ``single_process``: the daemons run on this event loop.
        ``log_counters``: of the log of this process.
        """
        self._paths = paths
        self._read_settings = read_settings
        self._secrets = dict(secrets or {})
        self._single_process = single_process
        self._starter = channel if bound else None
        self._report = StartReport(channel)
        self._clock = clock or SystemClock()
        self._counters = log_counters or Counters()
        self._run = RunFiles(paths.run)
        self._daemons = DaemonGroup(
            paths, self._secrets, self._clock, single_process=single_process, stays_away=self._stays_away
        )
        self._role = CurrentRole("worker")
        """With which the daemons were started, where a store of record decides it."""
        self._tasks = Background()
        self._phase = "starting"
        self._requests: asyncio.Queue[str] = asyncio.Queue()
        self._restart_accepted = False
        self._ending = asyncio.Event()

    async def run(self) -> int:
        """Start the node and supervise it until it is stopped; returns the process status.

        Raises AlreadyRunning, and SecmonError when the configuration is not valid; then nothing was started.
        """
        lock = SupervisorLock(self._paths.root)
        lock.acquire()
        try:
            settings = self._read_settings()
            account = find_account(settings.user or SERVICE_USER)
            with as_root():
                restore_folders(self._paths, NEEDED_FOLDERS, (account.uid, account.gid) if account else None)
            _take_rights_of(settings)
            self._run = RunFiles(self._paths.run, account)
            self._run.clear_all()
            start_as_worker(self._paths.role)
            control = control_server(self._paths.control_socket, self._answer, account)
            await control.open()
            self._tasks.keep("run files", lambda: tend(lambda: self._tend(control)))
            try:
                return await self._supervise(settings)
            finally:
                await self._tasks.stop()
                await control.close()
        finally:
            lock.release()

    async def _tend(self, control: CommandServer) -> None:
        """Create folders and the socket again that were removed under the node."""
        await self._daemons.restore_folders()
        await control.tend()

    async def _supervise(self, settings: SupervisorSettings) -> int:
        self._handle_signals()
        for note in settings.notes:
            log.warning("%s", note)
        ending = asyncio.create_task(self._ending.wait())
        working = asyncio.create_task(self._start_and_work(settings))
        waits: set[asyncio.Task[Any]] = {ending, working}
        if self._starter is not None:
            waits.add(asyncio.create_task(self._starter.supervisor_gone()))
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        failed = working.done()
        await cancel(*waits)
        await self._stop()
        if failed:
            working.result()
            return 1
        log.info("secmon has stopped")
        return 0

    async def _stop(self) -> None:
        self._ending.set()
        await self._tasks.stop("logs")
        self._report.stopping()
        await self._daemons.stop()
        self._run.restarting(False)
        self._run.clear_stale()

    async def _start_and_work(self, settings: SupervisorSettings) -> None:
        """Start the daemons, then serve requests; returns only when the first start has failed."""
        self._role = read_role(self._paths.role)
        try:
            await self._daemons.start(settings, first=True)
        except StartFailed as error:
            log.critical("secmon could not be started: %s", error)
            self._report.failed(str(error))
            return
        if settings.log_rotation is not None:
            # One task for the logs of all processes; its settings count until the next start. It works in a thread,
            # so it starts after the daemons on this event loop have dropped the rights of root.
            rotation = LogRotationTask(self._paths, settings.log_rotation, self._clock, self._counters)
            self._tasks.keep("logs", rotation.run)
        self._phase = "running"
        self._report.ready()
        log.info("secmon is running")
        while True:
            match await self._requests.get():
                case "restart":
                    await self._restart()
                    self._restart_accepted = False
                case "reload":
                    await self._daemons.reload()
                    log.info("The daemons reload their configuration")
                case "role":
                    await self._follow_role()

    async def _follow_role(self) -> None:
        """Restart the daemons that work otherwise in the node's role of the moment."""
        before, self._role = self._role, read_role(self._paths.role)
        names = concerned(before, self._role)
        if names:
            log.info("%s restart with the role %s", ", ".join(sorted(names)), self._role.role)
            await self._daemons.restart(names, stop_seconds=ROLE_STOP_SECONDS)

    async def _stays_away(self, daemon: str, reason: str) -> None:
        """Let another node be the master while ``daemon``, which a master needs, does not come back."""
        if daemon not in NEEDED or not self._paths.leader_socket.exists():
            return
        try:
            await LeaderClient(self._paths).failed(f"{daemon} does not come back: {reason}")
        except SecmonError as error:
            log.warning("secmon-leaderd does not learn that %s does not come back: %s", daemon, error.message)

    async def _restart(self) -> None:
        try:
            settings = self._checked_settings()
        except SecmonError as error:
            # It was valid when the restart was accepted and has changed since.
            log.error("The restart is refused: %s", error.message)
            return
        log.info("secmon restarts")
        _take_rights_of(settings)
        self._phase = "restarting"
        self._report.restarting()
        self._run.restarting(True)
        try:
            await self._daemons.stop()
            start_as_worker(self._paths.role)
            self._role = read_role(self._paths.role)
            await self._daemons.start(settings, first=False)
        finally:
            self._run.restarting(False)
            self._phase = "running"
        self._report.restarted()
        log.info("secmon has restarted")

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ending.set)
        loop.add_signal_handler(signal.SIGHUP, self._requests.put_nowait, "reload")

    def _checked_settings(self) -> SupervisorSettings:
        """The settings of the current configuration. Raises 1908, which names what is wrong."""
        try:
            settings = self._read_settings()
        except ConfigError as error:
            raise SecmonError(1908, error.extra) from error
        key = settings.encrypted_key
        if key is not None and not self._secrets:
            raise SecmonError(1908, f"{key} has a pass phrase: stop secmon and start it on a terminal")
        return settings

    async def _answer(self, command: str, request: Mapping[str, Any]) -> object:
        match command:
            case "status":
                return {**self._status(), "process": await asyncio.to_thread(process_figures)}
            case "restart":
                self._accept_restart()
            case "reload":
                self._refuse_while_stopping()
                self._requests.put_nowait("reload")
            case "role":
                self._refuse_while_stopping()
                self._requests.put_nowait("role")
            case "stop":
                self._ending.set()
            case _:
                raise SecmonError(1014, f"unknown command {command!r}; commands: status, restart, reload, stop, role")
        return {"accepted": command}

    def _refuse_while_stopping(self) -> None:
        """Raises 1017: a request that is queued now would never be served."""
        if self._ending.is_set():
            raise SecmonError(1017, "the node is being stopped")

    def _accept_restart(self) -> None:
        """Queue a restart unless one is under way. Raises 1908 for a configuration that is not valid, and 1017."""
        self._refuse_while_stopping()
        if not self._restart_accepted:
            self._checked_settings()
            self._restart_accepted = True
            self._requests.put_nowait("restart")

    def _status(self) -> Mapping[str, Any]:
        return {
            "pid": os.getpid(),
            "phase": "stopping" if self._ending.is_set() else self._phase,
            "restart_pending": self._restart_accepted,
            "single_process": self._single_process,
            "task_restarts": {**self._tasks.restarts, **self._daemons.task_restarts},
            "counters": self._counters.snapshot(),
            "processes": self._daemons.processes(),
            "daemons": daemon_states(self._paths),
        }


def _take_rights_of(settings: SupervisorSettings) -> None:
    """As root, take the effective ids of the service user: this process works in that user's folders."""
    account = find_account(settings.user) if settings.user and root_started() else None
    if account is not None:
        act_as(account)
