"""Verification of message counters: each message of an agent is accepted once (agent-link.md 5.6)."""

import asyncio
import logging

from secmon.agentlink.agent_table import Agent
from secmon.agentlink.counter_file import ReceiverCounters
from secmon.agents.wire.counters import Counter, Verdict, check_counter

log = logging.getLogger("secmon.agentlink")


class CounterVerification:
    """Keeps the last counter of each agent; only with ``remoted.verify_msg_id=1``."""

    def __init__(self, files: ReceiverCounters, *, flush_every: int) -> None:
        """``flush_every``: messages between two writes."""
        self._files = files
        self._every = flush_every
        self._count = 0
        self._dirty: dict[str, Counter] = {}
        self._writing: asyncio.Task[None] | None = None
        self._file_access = asyncio.Lock()  # a write in progress must not restore what is newer or deleted

    def refusal(self, agent: Agent, counter: Counter) -> Verdict | None:
        """Why a message is refused; None when it is accepted. Its counter is then the last one."""
        stored = agent.session.verified_counter
        if stored is None:
            try:
                stored = self._files.load(agent.id)
            except OSError as error:
                log.error("The counter of agent %s cannot be read: %s", agent.id, error)
                return "duplicate"
        verdict = check_counter(stored, counter)
        agent.session.verified_counter = stored
        if verdict != "accept":
            return verdict
        agent.session.verified_counter = self._dirty[agent.id] = counter
        self._count += 1
        if self._count >= self._every and (self._writing is None or self._writing.done()):
            self._count = 0
            self._writing = asyncio.create_task(self.flush())
        return None

    async def forget(self, agent: Agent) -> None:
        """Delete the counter of an agent that is removed or has another key."""
        async with self._file_access:
            self._dirty.pop(agent.id, None)
            await asyncio.to_thread(self._files.forget, agent.id)

    async def flush(self) -> None:
        """Write the counters that have changed."""
        async with self._file_access:
            dirty, self._dirty = self._dirty, {}
            try:
                await asyncio.to_thread(self._files.save, list(dirty.items()))
            except OSError as error:
                log.error("Counters of agents cannot be written: %s", error)
                self._dirty = dirty | self._dirty

    async def close(self) -> None:
        """Write all counters; no write is in progress afterwards."""
        if self._writing is not None:
            await self._writing
        await self.flush()
