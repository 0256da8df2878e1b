"""Enrols agents: on the master itself, from a worker through the master (agent-link.md 1.6, 13)."""

import msgspec

from secmon.agentlink.enrolment.service import AddAgent
from secmon.agents.registry.enrolment import BAD_ANSWER, Refusal, Request, refusal, relayed_refusal
from secmon.agents.registry.entries import Entry
from secmon.agents.registry.registration import AgentRegistrar
from secmon.agents.registry.registry import New
from secmon.cluster.node import MasterCall
from secmon.common.errors import SecmonError

OPERATION = "POST /internal/agents"


def on_master(registrar: AgentRegistrar) -> AddAgent:
    """On the master."""

    async def add_agent(request: Request) -> Entry:
        new = New(name=request.name, address=request.address, groups=request.groups, key_hash=request.key_hash)
        try:
            return (await registrar.add(new)).entry
        except SecmonError as error:
            raise refusal(request, error, host_name=registrar.host_name) from None

    return add_agent


def on_worker(call_master: MasterCall) -> AddAgent:
    """On a worker."""

    async def add_agent(request: Request) -> Entry:
        try:
            row = await call_master(OPERATION, msgspec.to_builtins(request))
            return msgspec.convert(row, Entry)
        except SecmonError as error:
            raise relayed_refusal(error) from None
        except msgspec.ValidationError:
            raise Refusal(BAD_ANSWER) from None

    return add_agent
