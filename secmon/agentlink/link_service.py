"""The service of the link for the other daemons of the node: an ``AgentLink``, and the answers at the local socket."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from secmon.agentlink.agent_table import AgentTable
from secmon.agentlink.counters import agent_statistics
from secmon.agentlink.outgoing import Outgoing
from secmon.agentlink.requests import NOT_SENT, Requests
from secmon.agents.link.wire import AgentRequest, Answer, AppendEvents, Question, SendMessages, Statistics
from secmon.common.clock import Clock
from secmon.journal.batch_writer import BatchWriter

_SCA = "#!-sca-dump:"
_MARK = "#!-"


class LinkService:
    """An ``AgentLink`` inside the process of the link."""

    def __init__(
        self,
        agents: AgentTable,
        outgoing: Outgoing,
        requests: Requests,
        events: BatchWriter,
        clock: Clock,
        totals: Callable[[], Mapping[str, Any]],
    ) -> None:
        """``totals``: the counters of the whole link (agent-link.md 12.1)."""
        self._agents = agents
        self._outgoing = outgoing
        self._requests = requests
        self._events = events
        self._clock = clock
        self._totals = totals

    async def request(self, agent: int, target: str, payload: bytes, *, timeout: float | None = None) -> bytes:
        """As ``AgentLink.request``."""
        found = self._agents.by_number.get(agent)
        if found is None:
            return NOT_SENT
        return await self._requests.send(found, target, payload, timeout=timeout)

    async def send(self, messages: Sequence[tuple[int, str]]) -> Sequence[int]:
        """As ``AgentLink.send``; texts may come with or without the marker of control messages."""
        sent = await _some_at_a_time([self._send(agent, text) for agent, text in messages])
        return [agent for (agent, _), done in zip(messages, sent, strict=True) if not done]

    async def statistics(self, agents: Sequence[int] | None = None) -> Mapping[str, Any]:
        """As ``AgentLink.statistics``."""
        if agents is None:
            return self._totals()
        now = int(self._clock.now().timestamp())
        found = (self._agents.by_number.get(number) for number in dict.fromkeys(agents))
        counted = [(agent.number, agent.session.counts) for agent in found if agent and agent.session.counts]
        return agent_statistics(counted, now=now)

    async def append(self, lines: Sequence[bytes]) -> int:
        """Put events of other daemons into the journal. Returns the number of those there was room for."""
        taken = 0
        for line in lines:
            if self._events.full:
                break
            self._events.add(line)
            taken += 1
        return taken

    async def answer(self, question: Question) -> Answer:
        """The answer to a question that has one."""
        match question:
            case AgentRequest(agent, target, payload, timeout):
                return Answer(answer=await self.request(agent, target, payload, timeout=timeout))
            case SendMessages(messages):
                return Answer(unsent=list(await self.send(messages)))
            case Statistics(agents):
                return Answer(statistics=await self.statistics(agents))
            case AppendEvents(lines):
                return Answer(recorded=await self.append(lines))
        return Answer()

    async def _send(self, number: int, text: str) -> bool:
        agent = self._agents.by_number.get(number)
        if agent is None:
            return False
        marked = text if text.startswith(_MARK) else _MARK + text
        try:
            return await self._outgoing.deliver(agent, marked.encode(), "sca" if marked.startswith(_SCA) else "ar")
        except ValueError:  # longer than a message can be
            return False


async def _some_at_a_time(work: Iterable[Awaitable[bool]], *, at_once: int = 256) -> list[bool]:
    """The results in order; at most ``at_once`` run at the same time."""
    results: list[bool] = []
    batch: list[Awaitable[bool]] = []
    for each in work:
        batch.append(each)
        if len(batch) == at_once:
            results += await asyncio.gather(*batch)
            batch.clear()
    return results + await asyncio.gather(*batch)
