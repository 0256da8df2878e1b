"""Commands of other daemons at ``queue/sockets/analysis``: events to store, statistics, the state of the ruleset."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from secmon.common.errors import SecmonError
from secmon.engine.input.datagrams import MAX_MESSAGE
from secmon.journal.batch_writer import BatchWriter

MAX_REQUEST = 64 << 20
"""Bytes."""


class _Request(msgspec.Struct):
    """Arguments of all commands."""

    events: list[str] = msgspec.field(default_factory=list)
    agents: list[int] | None = None


class Desk:
    """Answers commands."""

    def __init__(
        self,
        local_events: BatchWriter,
        statistics: Callable[[list[int] | None], Mapping[str, Any]],
        ruleset: Callable[[bool], Awaitable[Mapping[str, Any]]],
    ) -> None:
        """``statistics`` of the whole, or of agents; ``ruleset``: its status, the files looked at before if asked."""
        self._local_events = local_events
        self._statistics = statistics
        self._ruleset = ruleset
        self.ingested = 0
        """Events taken."""

    async def answer(self, command: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The data that ``command`` yields. Raises SecmonError, and ValidationError for arguments of a wrong type."""
        request = msgspec.convert(arguments, _Request)
        match command:
            case "events":
                return await self._events(request.events)
            case "statistics":
                return self._statistics(request.agents)
            case "ruleset":
                return await self._ruleset(False)
            case "refresh":
                return await self._ruleset(True)
        raise SecmonError(1014, f"unknown command {command!r}")

    async def _events(self, events: list[str]) -> Mapping[str, Any]:
        """Answered when they are in the journal: from then on they are analysed, whatever happens."""
        messages = [event.encode() for event in events]
        refused = [index for index, message in enumerate(messages) if not 4 <= len(message) <= MAX_MESSAGE]
        taken = [message for index, message in enumerate(messages) if index not in refused] if refused else messages
        try:
            await self._local_events.store(taken)
        except BlockingIOError as error:
            raise SecmonError(1014, str(error)) from error
        self.ingested += len(taken)
        return {"stored": len(taken), "refused": refused}
