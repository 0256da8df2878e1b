"""The analysis engine of this node, as other daemons reach it (analysis-api.md 6.4, 7)."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from secmon.common.errors import SecmonError

MAX_ANSWER = 64 << 20
"""Bytes."""
_SECONDS = 30.0


class EngineClient:
    """Opens a connection for each call; cancelling a call closes it.

    Every call raises SecmonError: 1121 when the socket does not exist, 1013 when it refuses, 1014 when no answer comes.
    """

    def __init__(self, analysis: Path, logtest: Path) -> None:
        """Paths of the sockets; nothing happens before the first call."""
        self._analysis = analysis
        self._logtest = logtest

    async def store(self, messages: Sequence[str]) -> Sequence[int]:
        """Hand over messages, ``<type>:<escaped location>:<log>``; the indexes of those whose length is not allowed.

        All others are in the journal when this returns: they are analysed, whatever happens then.
        """
        refused: list[int] = (await self._ask({"command": "events", "events": list(messages)}))["refused"]
        return refused

    async def statistics(self, agents: Sequence[int] | None = None) -> Mapping[str, Any]:
        """Counters of the engine (manager.md 10.1), or of these agents (11.1)."""
        return await self._ask({"command": "statistics"} | ({} if agents is None else {"agents": list(agents)}))

    async def ruleset(self, *, refresh: bool = False) -> Mapping[str, Any]:
        """What is in force, and what is wrong with the files; with ``refresh`` they are looked at before."""
        return await self._ask({"command": "refresh" if refresh else "ruleset"})

    async def logtest(self, command: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """The whole answer of the log test: ``error``, ``data``, ``message``."""
        request = {
            "version": 1,
            "origin": {"name": "secmon", "module": "api"},
            "command": command,
            "parameters": parameters,
        }
        return await _exchange(self._logtest, request)

    async def _ask(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = await _exchange(self._analysis, request)
        if answer["error"]:
            code, message = int(answer["error"]), str(answer.get("message", ""))
            raise SecmonError(code, message.removeprefix(SecmonError(code).message).removeprefix(": ") or None)
        data: Mapping[str, Any] = answer["data"]
        return data


async def _exchange(path: Path, request: Mapping[str, Any]) -> Mapping[str, Any]:
    data = msgspec.json.encode(request)
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_unix_connection(str(path))
            try:
                writer.write(len(data).to_bytes(4, "little") + data)
                await writer.drain()
                size = int.from_bytes(await reader.readexactly(4), "little")
                if size > MAX_ANSWER:
                    raise EOFError
                return msgspec.json.decode(await reader.readexactly(size), type=dict[str, Any])
            finally:
                writer.close()
    except FileNotFoundError as error:
        raise SecmonError(1121, str(path)) from error
    except (ConnectionRefusedError, PermissionError) as error:
        raise SecmonError(1013, str(path)) from error
    except (OSError, EOFError, msgspec.MsgspecError) as error:  # in time is TimeoutError, an OSError
        raise SecmonError(1014, f"{path}: {error or 'no answer'}") from error
