"""What other daemons ask of the engine over ``queue/sockets/analysis``: to take events, and to tell how it fares.

Requests are objects with a ``command``; answers ``{"error": 0, "data": ...}`` or ``{"error": code, "message": ...}``
with codes of the catalogue.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from secmon.common.errors import SecmonError
from secmon.engine.input.datagrams import MAX_MESSAGE
from secmon.journal.batch_writer import BatchWriter

MAX_REQUEST = 64 << 20
"""Bytes."""
TOO_LONG = msgspec.json.encode({"error": 1014, "message": f"The request is longer than {MAX_REQUEST} bytes"})


class _Request(msgspec.Struct):
    command: str
    events: list[str] = msgspec.field(default_factory=list)
    agents: list[int] | None = None


class Desk:
    """Answers requests."""

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

    async def answer(self, request: bytes) -> bytes:
        """Answer one request."""
        try:
            data = await self._data(msgspec.json.decode(request, type=_Request))
        except SecmonError as error:
            return msgspec.json.encode({"error": error.code, "message": error.message})
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return msgspec.json.encode({"error": 1014, "message": f"The request is not understood: {error}"})
        return msgspec.json.encode({"error": 0, "data": data})

    async def _data(self, request: _Request) -> Mapping[str, Any]:
        match request.command:
            case "events":
                return await self._events(request.events)
            case "statistics":
                return self._statistics(request.agents)
            case "ruleset":
                return await self._ruleset(False)
            case "refresh":
                return await self._ruleset(True)
        raise SecmonError(1014, f"unknown command {request.command!r}")

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
