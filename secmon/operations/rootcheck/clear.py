"""Deletion of rootcheck findings (agent-data.md 6.4)."""

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.common.outcome import Outcome
from secmon.inventory.schema import rootcheck_findings
from secmon.operations.agents.commands import OwnAgents, TargetAgent
from secmon.operations.internal import INTERNAL
from secmon.operations.inventory.clearing import CLEARED, AgentsToClear, clear, clear_own
from secmon.security.rbac.authorization import Require

CLEAR_OWN = "DELETE /internal/own-inventory/rootcheck"


@operation(
    "DELETE", "/rootcheck/{agent_id}", params=TargetAgent, place=Place.AGENT, item=str, messages=CLEARED,
    require=(Require("rootcheck:clear", "agent:id", param="agent_id"),),
)  # fmt: skip
async def clear_findings(ctx: Context, params: TargetAgent) -> Outcome:
    """Delete the rootcheck findings of an agent."""
    return await clear(ctx, CLEAR_OWN, lambda _: None, manager=1703)


@operation(
    "DELETE", "/experimental/rootcheck", params=AgentsToClear, place=Place.AGENT, item=str, messages=CLEARED,
    require=(Require("rootcheck:clear", "agent:id", param="agents_list", mode="each"),),
)  # fmt: skip
async def clear_findings_of_agents(ctx: Context, params: AgentsToClear) -> Outcome:
    """Delete the rootcheck findings of agents."""
    return await clear(ctx, CLEAR_OWN, lambda _: None, manager=1703)


@operation(
    "DELETE", "/internal/own-inventory/rootcheck", params=OwnAgents, open_to_all=True, catalogue=INTERNAL, item=str,
    messages=CLEARED,
)  # fmt: skip
async def clear_own_findings(ctx: Context, params: OwnAgents) -> Outcome:
    """Delete the rootcheck findings of agents of this node."""
    return await clear_own(ctx, params.agents, rootcheck_findings)
