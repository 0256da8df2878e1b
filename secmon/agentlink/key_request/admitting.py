"""Who takes an agent whose key has come: the master by itself, a worker by asking the master (agent-link.md 3)."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from secmon.agents.registry.entries import Entry
from secmon.agents.registry.registration import AgentRegistrar
from secmon.agents.registry.registry import New
from secmon.common.errors import SecmonError

OPERATION = "POST /internal/agents/keyed"

Admit = Callable[[New], Awaitable[Entry]]
"""Adds the agent under the master's rules; its row. Raises SecmonError."""
MasterCall = Callable[[str, dict[str, Any]], Awaitable[object]]
"""Has the master run an operation with these parameters; the data that it answers. Raises SecmonError."""


def by_itself(registrar: AgentRegistrar) -> Admit:
    """On the master."""

    async def admit(new: New) -> Entry:
        return (await registrar.add(new)).entry

    return admit


def by_the_master(ask: MasterCall) -> Admit:
    """On a worker."""

    async def admit(new: New) -> Entry:
        params = {"id": new.id, "name": new.name, "address": new.address, "key": new.key, "key_hash": new.key_hash}
        try:
            return msgspec.convert(await ask(OPERATION, params), Entry)
        except msgspec.ValidationError:
            raise SecmonError(3036, "the agent that was added") from None

    return admit
