"""Agents of several nodes without any network: links that answer what the test says."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NOT_SENT = b"err Cannot send request"


@dataclass
class MemoryLink:
    """The agents of a node. ``answers``: by agent, target and payload; ``away``: those that cannot be reached."""

    answers: dict[tuple[int, str, bytes], bytes] = field(default_factory=dict)
    away: set[int] = field(default_factory=set)
    silent: set[int] = field(default_factory=set)
    sent: list[tuple[int, str]] = field(default_factory=list)
    asked: list[tuple[int, str, bytes]] = field(default_factory=list)

    async def request(self, agent: int, target: str, payload: bytes, *, timeout: float | None = None) -> bytes:
        self.asked.append((agent, target, payload))
        if agent in self.away:
            return NOT_SENT
        if agent in self.silent:
            try:
                async with asyncio.timeout(timeout):
                    await asyncio.get_running_loop().create_future()
            except TimeoutError:
                return b"err Response timeout"
        otherwise = b'ok  {"active-response":{"disabled":"no"}}'
        return self.answers.get((agent, target, payload), otherwise)

    async def send(self, messages: Sequence[tuple[int, str]]) -> Sequence[int]:
        self.sent += [(agent, text) for agent, text in messages if agent not in self.away]
        return [agent for agent, _ in messages if agent in self.away]

    async def statistics(self, agents: Sequence[int] | None = None) -> Mapping[str, Any]:
        counted = [{"uptime": 1767225600, "id": agent, "metrics": {}} for agent in agents or ()]
        return {"timestamp": 1767225660, "name": "secmon-remoted", "agents": counted}
