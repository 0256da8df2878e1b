"""The agents of this node, for daemons that are not ``secmon-remoted``: an ``AgentLink`` over its local socket."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from secmon.agents.link.wire import (
    AgentRequest,
    Answer,
    AppendEvents,
    FollowMissingKeys,
    FollowReports,
    MissingKey,
    Question,
    Report,
    SendMessages,
    Statistics,
    decode_answer,
    encode,
)
from secmon.common.errors import SecmonError
from secmon.common.ipc.client import call, subscribe

_SHORT_SECONDS = 30.0
"""Time limit of answers that do not depend on an agent's answer."""
_BATCH = 5000
"""Messages of one question."""
_BATCH_BYTES = 8 << 20
"""Bytes of the events of one question."""


class LinkClient:
    """Opens a connection for each call; cancelling a call closes it."""

    def __init__(self, path: Path) -> None:
        """``path`` of the socket; nothing happens before the first call."""
        self._path = path

    async def request(self, agent: int, target: str, payload: bytes, *, timeout: float | None = None) -> bytes:
        """As ``AgentLink.request``."""
        return (await self._ask(AgentRequest(agent, target, payload, timeout))).answer or b""

    async def send(self, messages: Sequence[tuple[int, str]]) -> Sequence[int]:
        """As ``AgentLink.send``."""
        unsent: list[int] = []
        for start in range(0, len(messages), _BATCH):
            answer = await self._ask(SendMessages(list(messages[start : start + _BATCH])), _SHORT_SECONDS)
            unsent += answer.unsent or []
        return unsent

    async def statistics(self, agents: Sequence[int] | None = None) -> Mapping[str, Any]:
        """As ``AgentLink.statistics``."""
        answer = await self._ask(Statistics(None if agents is None else list(agents)), _SHORT_SECONDS)
        return answer.statistics or {}

    async def record(self, lines: Sequence[bytes]) -> int:
        """Put events into the journal of this node. Returns the number of those there was room for. Raises 1014."""
        taken = 0
        for batch in _batches(lines):
            recorded = (await self._ask(AppendEvents(batch), _SHORT_SECONDS)).recorded or 0
            taken += recorded
            if recorded < len(batch):
                break
        return taken

    async def reports(self) -> AsyncGenerator[Report, None]:
        """Reports of agents on their upgrades, from now on and without end.

        Those that arrive without a listener are lost: agents repeat theirs until they are answered.
        Raises 1014 when ``secmon-remoted`` cannot be reached, or goes.
        """
        async with aclosing(self._follow(FollowReports())) as answers:
            async for answer in answers:
                if answer.report is not None:
                    yield answer.report

    async def keys(self) -> AsyncGenerator[MissingKey, None]:
        """Keys that agents lack, from now on and without end, under the same conditions as :meth:`reports`."""
        async with aclosing(self._follow(FollowMissingKeys())) as answers:
            async for answer in answers:
                if answer.wanted is not None:
                    yield answer.wanted

    async def _follow(self, question: Question) -> AsyncGenerator[Answer, None]:
        with _link_errors():
            async with aclosing(subscribe(self._path, encode(question))) as answers:
                async for answer in answers:
                    yield decode_answer(answer)

    async def _ask(self, question: Question, seconds: float | None = None) -> Answer:
        with _link_errors():
            return decode_answer(await call(self._path, encode(question), seconds=seconds))


@contextmanager
def _link_errors() -> Iterator[None]:
    """Raises SecmonError 1014 for failed calls."""
    try:
        yield
    except (OSError, msgspec.MsgspecError) as error:
        raise SecmonError(1014, "secmon-remoted") from error


def _batches(lines: Sequence[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for line in lines:
        if batch and (len(batch) == _BATCH or size + len(line) > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line)
    if batch:
        yield batch
