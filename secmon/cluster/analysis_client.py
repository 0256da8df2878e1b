"""The analysis engine of this node, as other daemons reach it (analysis-api.md 6.4, 7)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from secmon.agents.sources.reports import SourceQuestion, SourceReport
from secmon.cluster.node import Changed, Finding
from secmon.common.errors import SecmonError
from secmon.common.ipc.client import call, call_error
from secmon.common.ipc.commands import command

_SECONDS = 30.0
_VALIDATION_SECONDS = 300.0


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
        refused: list[int] = (await self._ask("events", events=list(messages)))["refused"]
        return refused

    async def statistics(self, agents: Sequence[int] | None = None) -> Mapping[str, Any]:
        """Counters of the engine (manager.md 10.1), or of these agents (11.1)."""
        arguments: dict[str, Any] = {} if agents is None else {"agents": list(agents)}
        return await self._ask("statistics", **arguments)

    async def local_files(self) -> Mapping[str, Any]:
        """Counters of the log files of the node itself (manager.md 11.2)."""
        return await self._ask("local_files")

    async def sources(self, question: SourceQuestion) -> SourceReport:
        """Where the events of this node's agents come from."""
        answer = await self._ask("sources", sources=msgspec.to_builtins(question))
        return msgspec.convert(answer, SourceReport)

    async def ruleset(self, *, refresh: bool = False) -> Mapping[str, Any]:
        """What is in force, and what is wrong with the files; with ``refresh`` they are looked at before."""
        return await self._ask("refresh" if refresh else "ruleset")

    async def validate(self, changed: Changed, *, blocking: bool) -> Sequence[Finding]:
        """Findings about the ruleset with files ``changed``, in UTF-8; with ``blocking`` the blocking error only."""
        texts = {path: None if data is None else data.decode() for path, data in changed.items()}
        answer = await self._ask("validate", seconds=_VALIDATION_SECONDS, changed=texts, blocking=blocking)
        return msgspec.convert(answer["findings"], list[Finding])

    async def count_hits(self, senders: bytes) -> None:
        """Let composites count hits of other nodes: msgpack of a list of :class:`secmon.cluster.rule_hits.HitsOf`."""
        await self._ask("hits", hits=senders)

    async def logtest(self, command: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """The whole answer of the log test: ``error``, ``data``, ``message``."""
        request = {
            "version": 1,
            "origin": {"name": "secmon", "module": "api"},
            "command": command,
            "parameters": parameters,
        }
        try:
            answer = await call(self._logtest, msgspec.json.encode(request), seconds=_SECONDS)
            return msgspec.json.decode(answer, type=dict[str, Any])
        except OSError as error:
            raise call_error(error, self._logtest) from error
        except msgspec.MsgspecError as error:
            raise SecmonError(1014, f"{self._logtest}: {error}") from error

    async def _ask(self, name: str, *, seconds: float = _SECONDS, **arguments: Any) -> Mapping[str, Any]:
        data: Mapping[str, Any] = await command(self._analysis, name, seconds=seconds, **arguments)
        return data
