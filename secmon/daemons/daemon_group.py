"""The daemons of a node as one group: started together, each restarted when it ends or hangs, stopped in order."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Set
from functools import partial
from typing import Any

from secmon.cluster.store_checks import migrate_stores
from secmon.common.background import Background
from secmon.common.backoff import Backoff
from secmon.common.clock import Clock
from secmon.common.paths import Paths
from secmon.common.privileges import SERVICE_USER, find_account
from secmon.daemons.control_sockets import daemon_socket
from secmon.daemons.daemon import StartFailed, start_error
from secmon.daemons.daemon_handles import DaemonHandle, ProcessHandle, daemon_handles
from secmon.daemons.fork_server import NEEDED_FOLDERS, ForkServer
from secmon.daemons.installation_files import restore_folders
from secmon.daemons.run_files import RunFiles
from secmon.daemons.supervisor_settings import SupervisorSettings
from secmon.daemons.watchdog import WatchSettings, until_hung

log = logging.getLogger("secmon.supervisor")

_IN_USE_TRIES = 3
"""Starts of a daemon whose address is in use, before the first start of the node is given up."""


StaysAway = Callable[[str, str], Awaitable[None]]
"""Gets the name of a daemon that does not come back, and the reason."""


class DaemonGroup:
    """Use it on one event loop. :meth:`start` and :meth:`stop` alternate."""

    def __init__(
        self,
        paths: Paths,
        secrets: Mapping[str, str],
        clock: Clock,
        *,
        single_process: bool,
        stays_away: StaysAway | None = None,
    ) -> None:
        """``single_process``: the daemons run on this event loop. ``stays_away`` is called for each daemon that has
        failed again soon after it was started again."""
        self._paths, self._secrets, self._clock, self._single_process = paths, secrets, clock, single_process
        self._stays_away = stays_away
        self._run = RunFiles(paths.run)
        self._daemons: list[DaemonHandle] = []
        self._fork_server: ForkServer | None = None
        self._watch: WatchSettings | None = None
        self._tasks = Background()
        self._restarts: Counter[str] = Counter()
        self._hangs: Counter[str] = Counter()

    @property
    def task_restarts(self) -> Mapping[str, int]:
        """Restarts of the tasks that keep the daemons running."""
        return self._tasks.restarts

    def processes(self) -> list[Mapping[str, Any]]:
        """Name, process id, restarts and hangs of each daemon."""
        return [
            {
                "daemon": daemon.name,
                "pid": daemon.pid,
                "restarts": self._restarts[daemon.name],
                "hangs": self._hangs[daemon.name],
            }
            for daemon in self._daemons
        ]

    async def start(self, settings: SupervisorSettings, *, first: bool) -> None:
        """Start all daemons at the same time; on one event loop one after the other.

        Raises StartFailed at the ``first`` start of the node when a daemon does not start, after all others have
        started. Later a start that fails is repeated instead.
        """
        self._run = RunFiles(self._paths.run, find_account(settings.user or SERVICE_USER))
        try:
            settings.set_unusable_aside(self._clock)
            migrate_stores(self._paths, self._clock)
            self._daemons = daemon_handles(settings, self._paths, self._secrets, self._new_fork_server(settings))
        except Exception as error:  # it failed in this process: one line; unknown ones are logged
            raise StartFailed(str(start_error(error))) from error
        self._watch = settings.watch
        at_once = asyncio.Semaphore(1 if self._single_process else len(self._daemons) or 1)
        async with asyncio.TaskGroup() as group:
            starts = [group.create_task(self._start_one(each, at_once, first=first)) for each in self._daemons]
        failures = [failure for start in starts if (failure := start.result()) is not None]
        if failures:
            raise failures[0]

    async def stop(self) -> None:
        """Stop the daemons, the last one of the settings first."""
        await self._tasks.stop()
        for daemon in reversed(self._daemons):
            await daemon.stop()
        self._daemons = []
        if self._fork_server is not None:
            await self._fork_server.close()

    async def restart(self, names: Set[str], *, stop_seconds: float) -> None:
        """Restart the daemons ``names`` in order, each at once; one that does not stop in time is killed."""
        chosen = [daemon for daemon in self._daemons if daemon.name in names]
        at_once = asyncio.Semaphore(len(chosen) or 1)

        async def one(daemon: DaemonHandle) -> None:
            await self._tasks.stop(daemon.name)
            await daemon.stop(stop_seconds)
            await self._start_one(daemon, at_once, first=False)

        async with asyncio.TaskGroup() as group:
            for daemon in chosen:
                group.create_task(one(daemon))

    async def reload(self) -> None:
        """Tell all daemons to reload their configuration."""
        for daemon in self._daemons:
            await daemon.reload()

    async def restore_folders(self) -> None:
        """Create those of :data:`NEEDED_FOLDERS` that were removed under the node. Raises OSError."""
        if all((self._paths.root / name).is_dir() for name in NEEDED_FOLDERS):
            return
        if self._fork_server is not None:  # it has the rights of root, if the node was started with them
            await self._fork_server.restore(self._paths.root)
        else:
            account = self._run.account
            restore_folders(self._paths, NEEDED_FOLDERS, (account.uid, account.gid) if account else None)

    def _new_fork_server(self, settings: SupervisorSettings) -> ForkServer | None:
        """A new one for each start of the node: the code may be of another version since the last."""
        if not self._single_process:
            self._fork_server = ForkServer(spec.factory.partition(":")[0] for spec in settings.daemons)
        return self._fork_server

    async def _start_one(self, daemon: DaemonHandle, at_once: asyncio.Semaphore, *, first: bool) -> StartFailed | None:
        """Start ``daemon`` and keep it running. At the ``first`` start: why it did not start."""
        backoff = Backoff()
        async with at_once:
            try:
                await (self._first_start(daemon) if first else daemon.start())
                backoff.started(self._clock.monotonic())
            except StartFailed as error:
                if first:
                    failure = StartFailed(f"{daemon.name}: {error}")
                    failure.__cause__ = error
                    return failure
                if error.in_use:
                    backoff.in_use()
        self._tasks.keep(daemon.name, lambda: self._keep_running(daemon, backoff))
        return None

    async def _first_start(self, daemon: DaemonHandle) -> None:
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

    async def _keep_running(self, daemon: DaemonHandle, backoff: Backoff) -> None:
        """Start ``daemon`` again each time it ends."""
        while True:
            reason = await self._end_of(daemon)
            delay = backoff.ended(self._clock.monotonic())
            log.error("%s: %s; next start %s", daemon.name, reason, f"in {delay:g} s" if delay else "at once")
            self._restarts[daemon.name] += 1
            if delay:
                self._run.failed(daemon.name)
                if backoff.persistent and self._stays_away is not None:
                    await self._stays_away(daemon.name, reason)
                await asyncio.sleep(delay)
            try:
                await daemon.start()
            except StartFailed as error:
                if error.in_use:
                    backoff.in_use()
                continue
            backoff.started(self._clock.monotonic())

    async def _end_of(self, daemon: DaemonHandle) -> str:
        """Wait until ``daemon`` ends, or is killed because it hangs; the reason."""
        watchdog = f"watchdog of {daemon.name}"
        # A daemon on this event loop is not watched: when it hangs, so does the watchdog.
        if self._watch is not None and isinstance(daemon, ProcessHandle):
            self._tasks.keep(watchdog, partial(self._kill_when_hung, daemon, self._watch))
        try:
            return await daemon.ended()
        finally:
            await self._tasks.stop(watchdog)

    async def _kill_when_hung(self, daemon: ProcessHandle, watch: WatchSettings) -> None:
        while True:
            seconds = await until_hung(daemon_socket(self._paths, daemon.name), watch, self._clock)
            self._hangs[daemon.name] += 1
            self._run.failed(daemon.name)
            daemon.kill(f"it did not answer for {seconds:.0f} s and was killed")
