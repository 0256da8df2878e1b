"""The local socket: calls of other daemons of the node to the link (see ``agents.link.wire``)."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from secmon.agentlink.subscribers import Subscribers
from secmon.agents.link.wire import (
    MAX_REQUEST,
    Answer,
    FollowMissingKeys,
    FollowReports,
    Question,
    Report,
    decode_question,
    encode,
)
from secmon.common.ipc.server import Answers, FrameServer, InvalidRequest, Limits

MAX_CLIENTS = 8192


class LocalSocket(FrameServer):
    """Answers questions of daemons. A daemon that closes its connection cancels its question."""

    def __init__(self, path: Path, answer: Callable[[Question], Awaitable[Answer]]) -> None:
        super().__init__(path, self._handle, Limits(request=MAX_REQUEST, clients=MAX_CLIENTS), cancels=True)
        self._answer_question = answer
        self.reports = Subscribers()
        """Subscribers to agents' reports on their upgrades."""
        self.keys = Subscribers()
        """Subscribers to the keys that agents lack."""

    def report(self, agent: int, payload: bytes) -> None:
        """Send what an agent reports on its upgrade to all subscribers."""
        self.reports.publish(Answer(report=Report(agent, payload)))

    async def _handle(self, payload: bytes) -> bytes | Answers:
        try:
            question = decode_question(payload)
        except msgspec.MsgspecError as error:
            raise InvalidRequest(str(error)) from error
        match question:
            case FollowReports():
                return self.reports.follow()
            case FollowMissingKeys():
                return self.keys.follow()
            case _:
                return encode(await self._answer_question(question))
