"""Adds agents whose keys were found: on the master itself, from a worker through the master (agent-link.md 3)."""

from collections.abc import Awaitable, Callable

import msgspec

from secmon.agents.registry.entries import Entry
from secmon.agents.registry.registration import AgentRegistrar
from secmon.agents.registry.registry import New
from secmon.cluster.node import MasterCall
from secmon.common.errors import SecmonError

OPERATION = "POST /internal/agents/keyed"

AddAgent = Callable[[New], Awaitable[Entry]]
"""Adds the agent by the master's rules. Returns its row. Raises SecmonError."""


def on_master(registrar: AgentRegistrar) -> AddAgent:
    """On the master."""

    async def add_agent(new: New) -> Entry:
        return (await registrar.add(new)).entry

    return add_agent


def on_worker(call_master: MasterCall) -> AddAgent:
    """On a worker."""

    async def add_agent(new: New) -> Entry:
        params = {"id": new.id, "name": new.name, "address": new.address, "key": new.key, "key_hash": new.key_hash}
        try:
            return msgspec.convert(await call_master(OPERATION, params), Entry)
        except msgspec.ValidationError:
            raise SecmonError(3036, "the agent that was added") from None

    return add_agent
