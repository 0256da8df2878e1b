"""Asking the node's processes: the client of the control sockets, and the supervisor as the rooms see it."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from secmon.common.errors import SecmonError
from secmon.common.jobs import doer
from secmon.common.paths import Paths
from secmon.daemons.states import daemon_states

PROBE_SECONDS = 2.0
"""What a daemon has to answer when its state is asked for."""
MAX_REPLY = 16 * 1024 * 1024
"""Bytes of one answer; an active configuration is the longest."""


def daemon_socket(paths: Paths, daemon: str) -> Path:
    """Control socket of ``daemon``: its name without the product's prefix."""
    return paths.sockets / daemon.removeprefix("secmon-")


async def ask(
    socket_path: Path, command: str, *, timeout: float = 5.0, absent: int = 1121, refused: int = 1013, **arguments: Any
) -> Any:
    """Send one command to a control socket and return its ``data``; ``timeout`` in seconds covers everything.

    Raises code ``absent`` when the socket does not exist, ``refused`` when it refuses, 1014 when the answer does not
    come in time or is not understood, and the code that the answer names.
    """
    try:
        async with asyncio.timeout(timeout):
            line = await _exchange(socket_path, msgspec.json.encode({"command": command, **arguments}))
        reply = msgspec.json.decode(line)
        code = int(reply["error"])
    except FileNotFoundError as error:
        raise SecmonError(absent, str(socket_path)) from error
    except (ConnectionRefusedError, PermissionError) as error:
        raise SecmonError(refused, str(socket_path)) from error
    except (OSError, ValueError, KeyError, TypeError, msgspec.DecodeError) as error:
        raise SecmonError(1014, f"{socket_path}: {error or 'no answer in time'}") from error
    if code:
        raise _reported(code, str(reply.get("message", "")))
    return reply.get("data")


async def answers(socket_path: Path, seconds: float) -> bool | None:
    """Whether who listens at ``socket_path`` says anything within ``seconds``; ``None`` when nobody listens there."""
    try:
        async with asyncio.timeout(seconds):
            await _exchange(socket_path, msgspec.json.encode({"command": "status"}))
    except (FileNotFoundError, ConnectionRefusedError, PermissionError):
        return None
    except (OSError, ValueError):  # in time is TimeoutError; a queue that is full is BlockingIOError
        return False
    return True


async def _exchange(socket_path: Path, request: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(socket_path), limit=MAX_REPLY)
    try:
        writer.write(request + b"\n")
        await writer.drain()
        line = await reader.readline()
    finally:
        writer.close()
    if not line.endswith(b"\n"):
        raise ConnectionResetError("the connection ended before the answer")
    return line


def _reported(code: int, message: str) -> SecmonError:
    """The error that the other side raised; its text begins with the catalogue's, which is not said twice."""
    base = SecmonError(code).message
    return SecmonError(code, message.removeprefix(base).removeprefix(": ") or None)


class SupervisorControl:
    """:class:`secmon.cluster.node.Control` over the supervisor's socket and the run folder."""

    def __init__(self, paths: Paths, *, timeout: float = 30.0) -> None:
        self._paths = paths
        self._timeout = timeout

    async def restart(self) -> None:
        """Ask for a restart (manager.md 13.1): answered after the configuration is validated, before it begins.

        Raises 1901 (no supervisor), 1902 (refused), 1014 (no answer), 1908 (configuration invalid; nothing stopped).
        """
        await self.ask("restart")

    def status(self) -> Mapping[str, str]:
        return daemon_states(self._paths)

    async def checked_status(self) -> Mapping[str, str]:
        """As :meth:`status`; a daemon that runs and does not answer counts as failed. Takes seconds at most."""
        states = daemon_states(self._paths)
        running = list(dict.fromkeys(doer(daemon) for daemon, state in states.items() if state == "running"))
        heard = await asyncio.gather(*(answers(daemon_socket(self._paths, each), PROBE_SECONDS) for each in running))
        silent = {daemon for daemon, answered in zip(running, heard, strict=True) if answered is False}
        return {daemon: "failed" if doer(daemon) in silent else state for daemon, state in states.items()}

    async def active_config(self, daemon: str, section: str) -> Mapping[str, Any]:
        """See ``cluster.node.Control``."""
        found: Mapping[str, Any] = await ask(daemon_socket(self._paths, daemon), "config", section=section)
        return found

    async def ask(self, command: str) -> Any:
        """Send ``status``, ``restart``, ``reload`` or ``stop``; errors as for :meth:`restart`."""
        return await ask(self._paths.control_socket, command, timeout=self._timeout, absent=1901, refused=1902)
