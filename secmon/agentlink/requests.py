"""Requests to components of agents, and their answers (agent-link.md 8.1, 8.2, 15.5)."""

import asyncio
from random import getrandbits
from typing import Any

from secmon.agentlink.agent_table import Agent
from secmon.agentlink.outgoing import Outgoing
from secmon.agentlink.reply_path import ReplyPath
from secmon.agentlink.settings import LinkSettings

BUSY = b"err Internal error"
NOT_SENT = b"err Cannot send request"
NO_ACK = b"err Maximum attempts exceeded"
NO_ANSWER = b"err Response timeout"


class _Waiting:
    """A request in flight."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[bytes] = loop.create_future()
        self.acknowledged: asyncio.Future[None] = loop.create_future()


class Requests:
    """Sends requests and matches their answers. The number of requests in flight is bounded."""

    def __init__(self, outgoing: Outgoing, settings: LinkSettings) -> None:
        self._outgoing = outgoing
        self._slots = asyncio.Semaphore(settings.request_pool)
        self._slot_seconds = settings.request_turn_seconds
        self._answer_seconds = settings.answer_seconds
        self._repeat_seconds = settings.repeat_seconds  # this and the next over UDP only
        self._attempts = settings.attempts
        self._counter = getrandbits(32)
        self._waiting: dict[tuple[int, bytes], _Waiting] = {}

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    async def send(self, agent: Agent, target: str, payload: bytes, *, timeout: float | None = None) -> bytes:
        """The answer of ``target``, or one of the texts of 8.2. ``timeout`` in seconds bounds the whole exchange."""
        try:
            async with asyncio.timeout(timeout):
                return await self._exchange(agent, target, payload)
        except TimeoutError:
            return NO_ANSWER

    def answered(self, agent: Agent, route: ReplyPath, rest: bytes) -> None:
        """Handle the text after ``req``. Late and unknown answers are acknowledged and dropped."""
        counter, _, answer = rest.partition(b" ")
        waiting = self._waiting.get((agent.number, counter))
        if not route.stream:
            if answer == b"ack":
                if waiting is not None and not waiting.acknowledged.done():
                    waiting.acknowledged.set_result(None)
                return
            self._outgoing.reply(agent, b"#!-req %b ack" % counter[:16], "request")
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_result(answer)

    async def _exchange(self, agent: Agent, target: str, payload: bytes) -> bytes:
        try:
            async with asyncio.timeout(self._slot_seconds):
                await self._slots.acquire()
        except TimeoutError:
            return BUSY
        self._counter = (self._counter + 1) & 0xFFFFFFFF
        counter = b"%x" % self._counter
        place = agent.number, counter
        waiting = self._waiting[place] = _Waiting()
        try:
            text = b"#!-req %b %b %b" % (counter, target.encode(), payload)
            route = self._outgoing.path_to(agent)
            if route is None:
                return NOT_SENT
            return await (self._over_tcp if route.stream else self._over_udp)(agent, text, waiting)
        finally:
            del self._waiting[place]
            self._slots.release()

    async def _over_tcp(self, agent: Agent, text: bytes, waiting: _Waiting) -> bytes:
        if not await self._deliver(agent, text):
            return NOT_SENT
        return await self._wait(waiting, NO_ANSWER)

    async def _over_udp(self, agent: Agent, text: bytes, waiting: _Waiting) -> bytes:
        for _ in range(self._attempts):
            if not await self._deliver(agent, text):
                return NOT_SENT
            heard: set[asyncio.Future[Any]] = {waiting.acknowledged, waiting.answer}
            done, _ = await asyncio.wait(heard, timeout=self._repeat_seconds, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return await self._wait(waiting, NO_ACK)
        return NO_ACK

    async def _deliver(self, agent: Agent, text: bytes) -> bool:
        try:
            return await self._outgoing.deliver(agent, text, "request")
        except ValueError:  # longer than a message can be
            return False

    async def _wait(self, waiting: _Waiting, otherwise: bytes) -> bytes:
        try:
            async with asyncio.timeout(self._answer_seconds):
                return await waiting.answer
        except TimeoutError:
            return otherwise
