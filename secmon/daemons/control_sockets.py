"""The control sockets of the node's processes, and the supervisor as the other packages see it.

Commands of all daemons: status, counters, config, reload; of ``secmon-apid`` also slow_requests;
of the supervisor: status, restart, reload, stop, role.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from secmon.cluster.slow_requests import SlowRequest
from secmon.common.daemon_names import DAEMONS, serving_daemon
from secmon.common.ipc.client import call
from secmon.common.ipc.commands import CommandServer, Handler, command
from secmon.common.ipc.server import Limits
from secmon.common.paths import Paths
from secmon.common.privileges import Account
from secmon.common.readings import RecentReading
from secmon.daemons.run_files import daemon_states
from secmon.daemons.service_user import share

PROBE_SECONDS = 2.0
"""Time a daemon has to answer when its state is asked for."""
STATES_SECONDS = 0.5
"""How old the states of daemons may be when they are given to a caller."""
LIMITS = Limits(request=64 * 1024, clients=64, idle_seconds=10.0)
"""Of each control socket."""


def daemon_socket(paths: Paths, daemon: str) -> Path:
    """Control socket of ``daemon``: its name without the product's prefix."""
    return paths.sockets / daemon.removeprefix("secmon-")


def control_server(path: Path, handler: Handler, account: Account | None) -> CommandServer:
    """A control socket at ``path`` for processes of the group of ``account``, not open yet."""
    return CommandServer(path, handler, LIMITS, share=lambda made: share(made, 0o660, account))


async def answers(socket_path: Path, seconds: float) -> bool | None:
    """Whether the process at ``socket_path`` sends any answer within ``seconds``; ``None`` when none listens there."""
    try:
        await call(socket_path, msgspec.json.encode({"command": "status"}), seconds=seconds)
    except (FileNotFoundError, ConnectionRefusedError, PermissionError):
        return None
    except OSError:  # TimeoutError; BlockingIOError when the queue of connections is full
        return False
    return True


class SupervisorClient:
    """:class:`secmon.cluster.node.Control` over the supervisor's socket and the run folder."""

    def __init__(self, paths: Paths, *, timeout: float = 30.0, daemons: Sequence[str] = DAEMONS) -> None:
        """``daemons``: those whose states are asked for."""
        self._paths, self._daemons = paths, daemons
        self._timeout = timeout
        self._known = RecentReading(lambda: asyncio.to_thread(daemon_states, paths, daemons), STATES_SECONDS)
        self._checked = RecentReading(self._check, STATES_SECONDS)

    async def restart(self) -> None:
        """Ask for a restart (manager.md 13.1): answered after the configuration is validated, before it begins.

        Raises 1901 (no supervisor), 1902 (refused), 1014 (no answer), 1908 (configuration invalid; nothing stopped).
        """
        await self.send("restart")

    async def known_states(self) -> Mapping[str, str]:
        """See ``cluster.node.Control``."""
        return await self._known.value()

    async def checked_states(self) -> Mapping[str, str]:
        """See ``cluster.node.Control``. Takes :data:`PROBE_SECONDS` at most."""
        return await self._checked.value()

    async def _check(self) -> dict[str, str]:
        states = await asyncio.to_thread(daemon_states, self._paths, self._daemons)
        running = list(dict.fromkeys(serving_daemon(daemon) for daemon, state in states.items() if state == "running"))
        heard = await asyncio.gather(*(answers(daemon_socket(self._paths, each), PROBE_SECONDS) for each in running))
        silent = {daemon for daemon, answered in zip(running, heard, strict=True) if answered is False}
        return {daemon: "failed" if serving_daemon(daemon) in silent else state for daemon, state in states.items()}

    async def active_config(self, daemon: str, section: str) -> Mapping[str, Any]:
        """See ``cluster.node.Control``."""
        found: Mapping[str, Any] = await command(daemon_socket(self._paths, daemon), "config", section=section)
        return found

    async def counters(self, daemon: str) -> Mapping[str, Any]:
        """See ``cluster.node.Control``."""
        found: Mapping[str, Any] = await command(daemon_socket(self._paths, daemon), "counters")
        return found

    async def slow_requests(self, *, since: timedelta, limit: int) -> Sequence[SlowRequest]:
        """See ``cluster.node.Control``."""
        api = daemon_socket(self._paths, "secmon-apid")
        found = await command(api, "slow_requests", seconds_back=since.total_seconds(), limit=limit)
        return msgspec.convert(found, list[SlowRequest])

    async def supervisor_status(self) -> Mapping[str, Any]:
        """See ``cluster.node.Control``."""
        found: Mapping[str, Any] = await self.send("status")
        return found

    async def send(self, name: str) -> Any:
        """Send ``status``, ``restart``, ``reload``, ``stop`` or ``role``; errors as for :meth:`restart`."""
        return await command(self._paths.control_socket, name, seconds=self._timeout, absent=1901, refused=1902)
