"""Messages to agents: encrypted with the cipher that the agent last used, sent over its reply path."""

import asyncio

from secmon.agentlink.agent_table import Agent
from secmon.agentlink.counter_file import SenderCounter
from secmon.agentlink.counters import LinkCounts, Sent
from secmon.agentlink.reply_path import ReplyPath
from secmon.agentlink.settings import LinkSettings
from secmon.common.clock import Clock

_RETRIES = 64
"""Messages to all agents that may wait for their second try at the same time."""


class Outgoing:
    """Sends messages and counts those that cannot be sent."""

    def __init__(self, clock: Clock, counts: LinkCounts, counter: SenderCounter, settings: LinkSettings) -> None:
        self._clock = clock
        self._counts = counts
        self._counter = counter
        self._silent = settings.silent_seconds
        self._retry = settings.retry_seconds
        self._waiting: set[asyncio.TimerHandle] = set()

    def path_to(self, agent: Agent) -> ReplyPath | None:
        """The reply path of the agent, if it is open and the agent was heard lately (agent-link.md 4.6)."""
        route = agent.session.reply_path
        if route is None or route.closed or self._clock.monotonic() - agent.session.last_valid > self._silent:
            return None
        return route

    def reply(self, agent: Agent, text: bytes, kind: Sent) -> None:
        """Send without waiting. A message that does not fit is tried once more after ``retry_seconds``."""
        route = self.path_to(agent)
        if route is None:
            return
        payload = self._seal(agent, text)
        if self._write(agent, route, payload, kind):
            return
        if len(self._waiting) >= _RETRIES:
            self._count_dropped(agent)
            return

        def again() -> None:
            self._waiting.discard(handle)
            if not self._write(agent, route, payload, kind):
                self._count_dropped(agent)

        handle = asyncio.get_running_loop().call_later(self._retry, again)
        self._waiting.add(handle)

    async def deliver(self, agent: Agent, text: bytes, kind: Sent) -> bool:
        """Send, waiting once for room. Returns whether it was sent.

        Raises ValueError for an empty or too long text.
        """
        route = self.path_to(agent)
        if route is None:
            return False
        payload = self._seal(agent, text)
        if self._write(agent, route, payload, kind):
            return True
        await route.room(self._retry)
        if self._write(agent, route, payload, kind):
            return True
        self._count_dropped(agent)
        return False

    def close(self) -> None:
        """Cancel all second tries."""
        for handle in self._waiting:
            handle.cancel()
        self._waiting.clear()

    def _seal(self, agent: Agent, text: bytes) -> bytes:
        return agent.identity.cipher.seal(text, agent.session.reply_cipher, self._counter.take())

    def _write(self, agent: Agent, route: ReplyPath, payload: bytes, kind: Sent) -> bool:
        if route.closed or not route.write(payload):
            return False
        self._counts.bytes_sent += len(payload)
        self._counts.sent(kind)
        if agent.session.counts is not None:
            agent.session.counts.sent(kind)
        return True

    def _count_dropped(self, agent: Agent) -> None:
        self._counts.undelivered += 1
        if agent.session.counts is not None:
            agent.session.counts.undelivered += 1
