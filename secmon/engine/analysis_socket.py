"""Commands of other daemons at ``queue/sockets/analysis``: store events, counters, status and validation of rules."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from secmon.agents.sources.reports import SourceQuestion
from secmon.cluster.node import Finding
from secmon.common.errors import SecmonError
from secmon.engine.input.datagrams import MAX_MESSAGE
from secmon.engine.ruleset.validation import RulesetValidator
from secmon.engine.sources.source_keeper import SourceKeeper
from secmon.journal.batch_writer import BatchWriter

MAX_REQUEST = 64 << 20
"""Bytes."""


class _Request(msgspec.Struct):
    """Arguments of all commands."""

    events: list[str] = msgspec.field(default_factory=list)
    agents: list[int] | None = None
    changed: dict[str, str | None] = msgspec.field(default_factory=dict)
    blocking: bool = False
    hits: bytes = b""
    sources: SourceQuestion = SourceQuestion()


class AnalysisCommands:
    """Answers commands."""

    def __init__(
        self,
        local_events: BatchWriter,
        statistics: Callable[[list[int] | None], Mapping[str, Any]],
        local_files: Callable[[], Mapping[str, Any]],
        ruleset: Callable[[bool], Awaitable[Mapping[str, Any]]],
        validator: RulesetValidator,
        hits: Callable[[bytes], None] | None,
        sources: SourceKeeper,
    ) -> None:
        """``statistics``: in total, or of agents; ``local_files``: counters of the manager's own log files;
        ``ruleset``: its status, after a refresh if true; ``hits``: takes hits of other nodes, in a cluster."""
        self._local_events = local_events
        self._statistics, self._local_files = statistics, local_files
        self._ruleset = ruleset
        self._validator = validator
        self._hits = hits
        self._sources = sources
        self._validating = asyncio.Lock()
        self.ingested = 0
        """Events accepted."""

    async def answer(self, command: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The data that ``command`` yields. Raises SecmonError, and ValidationError for arguments of a wrong type."""
        request = msgspec.convert(arguments, _Request)
        match command:
            case "events":
                return await self._events(request.events)
            case "statistics":
                return self._statistics(request.agents)
            case "local_files":
                return self._local_files()
            case "ruleset":
                return await self._ruleset(False)
            case "refresh":
                return await self._ruleset(True)
            case "hits" if self._hits is not None:
                self._hits(request.hits)
                return {}
            case "sources":
                return await self._report_sources(request.sources)
            case "validate":
                return {"findings": await self._validate(request)}
        raise SecmonError(1014, f"unknown command {command!r}")

    async def _report_sources(self, question: SourceQuestion) -> Mapping[str, Any]:
        def report() -> dict[str, Any]:
            return dict(msgspec.to_builtins(self._sources.answer(question)))

        return await asyncio.to_thread(report)

    async def _validate(self, request: _Request) -> Sequence[Finding]:
        changed = {path: None if text is None else text.encode() for path, text in request.changed.items()}
        async with self._validating:  # here rather than in the threads: waiting requests must not use all of them up
            if not request.blocking:
                return await asyncio.to_thread(self._validator.findings, changed)
            error = await asyncio.to_thread(self._validator.blocking_error, changed)
            return [] if error is None else [error]

    async def _events(self, events: list[str]) -> Mapping[str, Any]:
        """Store events; the answer follows when they are in the journal, so that they survive a crash."""
        messages = [event.encode() for event in events]
        refused = [index for index, message in enumerate(messages) if not 4 <= len(message) <= MAX_MESSAGE]
        accepted = [message for index, message in enumerate(messages) if index not in refused] if refused else messages
        try:
            await self._local_events.store(accepted)
        except BlockingIOError as error:
            raise SecmonError(1014, str(error)) from error
        self.ingested += len(accepted)
        return {"stored": len(accepted), "refused": refused}
