"""Handles of the supervisor on its daemons: in processes of their own, or on the supervisor's event loop."""

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.common.privileges import SERVICE_USER, drop_to, find_account, root_started
from secmon.daemons.child_channel import ENDED, ParentChannel
from secmon.daemons.control_sockets import daemon_socket
from secmon.daemons.daemon import Context, StartError, StartFailed, find_factory, start_error
from secmon.daemons.daemon_host import DaemonHost
from secmon.daemons.fork_server import ForkedProcess, ForkServer
from secmon.daemons.run_files import RunFiles
from secmon.daemons.supervisor_settings import ProcessSpec, SupervisorSettings

_KILL_MARGIN = 4.0
"""Seconds between the end of a daemon's own bound and its being killed."""


_NEVER_STARTED = "it does not run"


class DaemonHandle(Protocol):
    """One daemon under supervision. When a method has returned, the run files show the daemon's state."""

    name: str

    async def start(self) -> None:
        """Start it and wait until it serves. Raises :class:`StartFailed`; then no part of it runs."""

    async def ended(self) -> str:
        """Wait until it ends by itself; returns the reason. After a failed start: at once, why it failed."""

    async def stop(self, seconds: float | None = None) -> None:
        """Stop it within ``seconds``, by default ``stop_seconds``; returns when no part of it runs.

        No effect when it does not run.
        """

    async def reload(self) -> None:
        """Make it reload its configuration."""

    @property
    def pid(self) -> int | None:
        """Its process, while it runs."""


class ProcessHandle:
    """A daemon in a process of its own. It ends by itself when the supervisor ends."""

    def __init__(
        self,
        spec: ProcessSpec,
        settings: SupervisorSettings,
        paths: Paths,
        secrets: Mapping[str, str],
        server: ForkServer,
    ) -> None:
        self.name = spec.name
        self._spec, self._settings, self._paths, self._secrets = spec, settings, paths, secrets
        self._server = server
        self._run = RunFiles(paths.run, find_account(settings.user or SERVICE_USER))
        self._process: ForkedProcess | None = None
        self._channel: ParentChannel | None = None
        self._ready = False
        self._killed: str | None = None
        self._not_started = _NEVER_STARTED

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.running else None

    async def start(self) -> None:
        self._run.starting(self.name)
        try:
            async with asyncio.timeout(self._settings.start_seconds):
                await self._launch()
        except TimeoutError:
            await self._start_failed(late := StartFailed(f"it was not ready within {self._settings.start_seconds:g} s"))
            raise late from None
        except StartFailed as error:
            await self._start_failed(error)
            raise

    async def _start_failed(self, error: StartFailed) -> None:
        self._not_started = _not_started(error)
        await self._finish(failed=True)

    async def _launch(self) -> None:
        self._channel = channel = ParentChannel()
        self._process = await self._server.fork(self._arguments(), channel.child)
        channel.opened(self._secrets)
        reason = await channel.outcome()
        if reason == ENDED:
            reason = f"{_fate(await self._process.wait())} before it was ready"
        if reason is not None:
            raise StartFailed(reason)
        self._ready = True

    def _arguments(self) -> list[str]:
        arguments = [self.name, "--root", str(self._paths.root), "--factory", self._spec.factory]
        arguments += ["--stop-seconds", f"{self._settings.stop_seconds:g}"]
        arguments += ["--needs-root"] if self._spec.needs_root else []
        log = self._spec.log
        arguments += ["--log-level", log.level, "--log-formats", ",".join(log.formats), "--node", log.node]
        arguments += ["--log-terminal"] if log.terminal else []
        return [*arguments, "--user", self._settings.user] if self._settings.user else arguments

    async def ended(self) -> str:
        if self._process is None:
            return self._not_started
        status = await self._process.wait()
        self._clean_up()
        reason, self._killed = self._killed, None
        return _fate(status) if reason is None else reason

    def kill(self, reason: str) -> None:
        """Kill it. :meth:`ended` then returns ``reason``."""
        if self._process is not None and self._process.running:
            self._killed = reason
            self._process.kill()

    async def stop(self, seconds: float | None = None) -> None:
        await self._finish(failed=False, seconds=seconds)

    async def _finish(self, *, failed: bool, seconds: float | None = None) -> None:
        process, bound = self._process, self._settings.stop_seconds + _KILL_MARGIN if seconds is None else seconds
        if process is not None and process.running:
            process.signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(bound):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        self._process = None
        self._clean_up()
        (self._run.failed if failed else self._run.stopped)(self.name)

    async def reload(self) -> None:
        # Before it is ready the signal would end it, and it reads the configuration anyway.
        if self._ready and self._process is not None:
            self._process.signal(signal.SIGHUP)

    def _clean_up(self) -> None:
        """Remove the socket of a process that was killed, and close the channel to it."""
        self._ready = False
        daemon_socket(self._paths, self.name).unlink(missing_ok=True)
        if self._channel is not None:
            self._channel.close()
            self._channel = None


class InProcessHandle:
    """A daemon on the supervisor's own event loop (``--single-process``)."""

    def __init__(
        self, spec: ProcessSpec, settings: SupervisorSettings, paths: Paths, secrets: Mapping[str, str]
    ) -> None:
        self.name = spec.name
        self._settings, self._paths = settings, paths
        self._factory = find_factory(spec.factory)
        self._needs_root = spec.needs_root
        self._context = Context(name=spec.name, paths=paths, secrets=secrets, single_process=True)
        self._account = find_account(settings.user or SERVICE_USER)
        self._run = RunFiles(paths.run, self._account)
        self._host: DaemonHost | None = None
        self._not_started = _NEVER_STARTED

    @property
    def pid(self) -> int | None:
        return os.getpid() if self._host is not None and self._host.running else None

    def prepare(self) -> None:
        """Build the daemon if that needs root. Raises the errors of a start."""
        if self._needs_root:
            self._build()

    def _build(self) -> DaemonHost:
        daemon = self._factory(self._context)
        self._host = DaemonHost(daemon, self._paths, self._account, self._settings.stop_seconds)
        return self._host

    async def start(self) -> None:
        try:
            host = self._host or self._build()
            async with asyncio.timeout(self._settings.start_seconds):
                await host.start()
        except Exception as error:  # a failure of one daemon must not end the others; start_error logs unknown ones
            self._host = None
            self._run.failed(self.name)
            failed = StartFailed(str(start_error(error)))
            self._not_started = _not_started(failed)
            raise failed from error

    async def ended(self) -> str:
        if self._host is None:
            return self._not_started
        reason = await self._host.ended()
        await self._host.stop(failed=True)
        self._host = None
        return f"it failed: {reason}"

    async def stop(self, seconds: float | None = None) -> None:
        host, self._host = self._host, None
        if host is not None and host.running:
            await host.stop()
        self._run.stopped(self.name)

    async def reload(self) -> None:
        if self._host is not None and self._host.running:
            with suppress(SecmonError):  # logged by the host; the daemon keeps its configuration
                await self._host.reload()


def _not_started(error: StartFailed) -> str:
    return f"it did not start: {error}"


def _fate(status: int | None) -> str:
    """How a process ended, by its exit status."""
    if status is None:
        return "ended with an unknown status"
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def daemon_handles(
    settings: SupervisorSettings, paths: Paths, secrets: Mapping[str, str], server: ForkServer | None
) -> list[DaemonHandle]:
    """One handle for each daemon of ``settings``, none started. Without a ``server`` all run in this process.

    In one process this also drops privileges, after the daemons are built that need root. Raises StartError.
    """
    if server is not None:
        return [ProcessHandle(spec, settings, paths, secrets, server) for spec in settings.daemons]
    daemons = [InProcessHandle(spec, settings, paths, secrets) for spec in settings.daemons]
    for daemon in daemons:
        daemon.prepare()
    if settings.user and root_started():
        account = find_account(settings.user)
        if account is None:
            raise StartError(2000, f"user {settings.user} does not exist")
        drop_to(account)
    return [*daemons]
