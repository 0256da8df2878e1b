"""secmon-leaderd: this node's part in who is master, where a store of record decides it."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from sqlalchemy import Connection

from secmon.cluster.leadership.leader import Leader
from secmon.cluster.leadership.lookout import LeaderSettings
from secmon.cluster.leadership.role_file import CurrentRole, read_role, write_role
from secmon.cluster.leadership.snapshot import Timing
from secmon.cluster.leadership.term import Term
from secmon.cluster.record.masters_record import record_address
from secmon.cluster.record.readiness import Readiness, readiness
from secmon.common.background import Background
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.common.privileges import find_account
from secmon.daemons.control_sockets import SupervisorClient, control_server
from secmon.daemons.daemon import Context
from secmon.daemons.daemon_host import tend
from secmon.daemons.node_builder import Installation, read_installation
from secmon.daemons.takeover import become_master

log = logging.getLogger("secmon.leaderd")

BecomeMaster = Callable[[Installation, Term], None]
"""Brings the node up to the store of record. Blocks; raises SecmonError if it cannot."""
Ready = Callable[[Connection], Readiness]
"""Whether the node could be the master now. Blocks."""
_TRY_AGAIN_SECONDS = 1.0


def build(context: Context) -> "LeaderDaemon":
    """The daemon for the installation in ``context.paths``. Raises ConfigError."""
    installation = read_installation(context.paths)
    key = installation.main.cluster.key
    return LeaderDaemon(installation, become_master, lambda connection: readiness(connection, installation.paths, key))


class LeaderDaemon:
    """Runs the leader, writes the role for the other daemons, and takes requests at a socket."""

    name = "secmon-leaderd"

    def __init__(
        self,
        installation: Installation,
        take_over: BecomeMaster,
        ready: Ready,
        *,
        settings: LeaderSettings | None = None,
    ) -> None:
        """``settings``: by default those of the installation."""
        paths, section = installation.paths, installation.main.cluster
        assert section.store is not None, "the daemon is started only where a store is configured"
        self._counters = Counters()
        self.tasks = Background()
        self._publisher = RolePublisher(paths)
        self.leader = Leader(
            settings or leader_settings(installation),
            record_address(paths, section.store),
            read_role(paths.role),
            become_master=lambda term: take_over(installation, term),
            publish=self._publisher.publish,
            ready=ready,
            clock=SystemClock(),
            counters=self._counters,
        )
        self._requests = control_server(paths.leader_socket, self._answer, find_account())
        self._installation = installation

    async def start(self) -> None:
        """Open the socket and begin to look at the store of record, which may be away."""
        await self._requests.open()
        self.tasks.keep("socket", lambda: tend(self._requests.tend))
        self.tasks.keep("role", self._publisher.run)
        self.tasks.keep("leadership", self.leader.run)

    async def finished(self) -> None:
        await self.tasks.failed()

    async def stop(self) -> None:
        """Resign, if this node is the master."""
        await self.tasks.stop()
        await self.leader.stop()
        await self._requests.close()

    async def reload(self) -> None:
        """The configuration is read at start; the password of the database at each connection."""

    def counters(self) -> Mapping[str, Any]:
        return {**self._counters.snapshot(), **self.leader.counters()}

    def active_config(self) -> Mapping[str, Any]:
        return {"cluster": self._installation.main.cluster.as_dict()}

    async def _answer(self, command: str, request: Mapping[str, Any]) -> object:
        match command:
            case "status":
                return self.leader.status()
            case "failed":
                self.leader.failed(msgspec.convert(request.get("reason"), str))
            case "shown":
                number = msgspec.convert(request.get("number"), int)
                self.leader.shown(number, msgspec.convert(request.get("by"), str))
            case "switchover":
                successor = msgspec.convert(request.get("successor", ""), str)
                return msgspec.to_builtins(await self.leader.switch_over(successor))
            case _:
                raise SecmonError(1014, f"unknown command {command!r}; commands: status, failed, shown, switchover")
        return {}


def leader_settings(installation: Installation) -> LeaderSettings:
    """The settings that the configuration of a node spells out."""
    section, listen = installation.main.cluster, installation.options.get("clusterd.peer_port")
    seconds = installation.options.get("leaderd.term_seconds")
    assert section.store is not None, "the daemon is started only where a store is configured"
    return LeaderSettings(
        node=section.node_name,
        candidate=section.store.candidate,
        address=section.store.address,
        port=listen if listen > 0 else section.port,
        preference=section.store.preference,
        timing=Timing(ttl=seconds, contact=seconds / 5, attempt=0.15 * seconds),
    )


class RolePublisher:
    """Gives the daemons of the node their role: writes the file, and has the supervisor restart whom it concerns.

    It works beside the leader, whose renewals wait for neither disk nor supervisor. Only the latest role counts.
    """

    def __init__(self, paths: Paths) -> None:
        self._path, self._supervisor = paths.role, SupervisorClient(paths)
        self._role: CurrentRole | None = None
        self._written: CurrentRole | None = None
        self._restart = False
        self._changed = asyncio.Event()
        self._trouble = ""

    async def publish(self, role: CurrentRole, restart: bool) -> None:
        """See ``Leader``. Returns at once."""
        self._role, self._restart = role, self._restart or restart
        self._changed.set()

    async def run(self) -> None:
        """Publish until cancelled; what fails, or was removed, is written again."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), _TRY_AGAIN_SECONDS)
            self._changed.clear()
            if self._role is not None and (self._role != self._written or not self._path.exists()):
                await self._write(self._role)

    async def _write(self, role: CurrentRole) -> None:
        restart, self._restart = self._restart, False
        try:
            await asyncio.to_thread(write_role, self._path, role)
            if restart:
                await self._supervisor.send("role")
        except (OSError, SecmonError) as error:
            if str(error) != self._trouble:
                log.error("the daemons do not have the role %s yet: %s", role.role, error)
            self._trouble, self._restart = str(error), self._restart or restart
            return
        self._written, self._trouble = role, ""
