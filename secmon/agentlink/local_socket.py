"""The local socket: what other daemons of the node ask of the link (see ``agents.link.wire``)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from secmon.agentlink.subscribers import Subscribers, write
from secmon.agents.link.wire import (
    MAX_FRAME,
    Answer,
    FollowMissingKeys,
    FollowReports,
    Question,
    Report,
    decode_question,
)
from secmon.common.unix_server import UnixServer

log = logging.getLogger("secmon.agentlink")

MAX_CLIENTS = 8192
IDLE_SECONDS = 30.0
"""Time a client has to ask."""


class LocalSocket:
    """Answers questions of daemons while open."""

    def __init__(self, path: Path, answer: Callable[[Question], Awaitable[Answer]]) -> None:
        self._answer = answer
        self._server = UnixServer(path, self._serve, log)
        self._clients: set[asyncio.Task[None]] = set()
        self.reports = Subscribers()
        """Those who are told what agents report on their upgrades."""
        self.keys = Subscribers()
        """Those who are told which keys agents lack."""

    async def open(self) -> None:
        """Listen; a stale socket is replaced. Raises OSError."""
        await self._server.open()

    async def tend(self) -> None:
        """Listen anew when the socket was removed from its folder. Raises OSError."""
        await self._server.tend()

    async def close(self) -> None:
        """Take nothing new, and cut off what is under way."""
        self._server.close()
        for task in list(self._clients):
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    def report(self, agent: int, payload: bytes) -> None:
        """Tell all listeners what an agent reports on its upgrade."""
        self.reports.tell(Answer(report=Report(agent, payload)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._clients) >= MAX_CLIENTS:
            writer.close()
            return
        self._clients.add(task)
        try:
            question = await self._question(reader)
            if isinstance(question, FollowReports):
                await self.reports.serve(reader, writer)
            elif isinstance(question, FollowMissingKeys):
                await self.keys.serve(reader, writer)
            else:
                await self._converse(question, reader, writer)
        except (OSError, EOFError, TimeoutError, msgspec.MsgspecError) as error:
            log.debug("A question of another daemon has failed: %r", error)
        except asyncio.CancelledError:
            return  # the link stops
        finally:
            self._clients.discard(task)
            writer.close()

    async def _question(self, reader: asyncio.StreamReader) -> Question:
        async with asyncio.timeout(IDLE_SECONDS):
            size = int.from_bytes(await reader.readexactly(4), "little")
            if size > MAX_FRAME:
                raise EOFError
            question: Question = decode_question(await reader.readexactly(size))
            return question

    async def _converse(self, question: Question, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer, unless the client goes first."""
        gone = asyncio.ensure_future(reader.read(1))
        answer = asyncio.ensure_future(self._answer(question))
        try:
            await asyncio.wait({gone, answer}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                await write(writer, answer.result())
        finally:
            gone.cancel()
            answer.cancel()
            await asyncio.gather(gone, answer, return_exceptions=True)
