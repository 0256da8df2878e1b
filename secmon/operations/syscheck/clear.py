"""Deletion of integrity results (agent-data.md 3.7): of old agents only, as others would send them again."""

from secmon.agents.wire.version import compare
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.common.outcome import Outcome
from secmon.inventory.schema import fim_entries
from secmon.operations.agents.commands import OwnAgents, TargetAgent
from secmon.operations.agents.node_requests import LocatedAgent
from secmon.operations.internal import INTERNAL
from secmon.operations.inventory.clearing import CLEARED, AgentsToClear, clear, clear_own
from secmon.operations.syscheck.read import COMPONENTS
from secmon.security.rbac.authorization import Require

SYNCHRONIZES_SINCE = "v3.12.0"
CLEAR_OWN = "DELETE /internal/own-inventory/syscheck"


@operation(
    "DELETE", "/syscheck/{agent_id}", params=TargetAgent, place=Place.AGENT, item=str, messages=CLEARED,
    require=(Require("syscheck:clear", "agent:id", param="agent_id"),),
)  # fmt: skip
async def clear_entries(ctx: Context, params: TargetAgent) -> Outcome:
    """Delete the integrity results of an agent older than v3.12.0."""
    return await _clear(ctx)


@operation(
    "DELETE", "/experimental/syscheck", params=AgentsToClear, place=Place.AGENT, item=str, messages=CLEARED,
    require=(Require("syscheck:clear", "agent:id", param="agents_list", mode="each"),),
)  # fmt: skip
async def clear_entries_of_agents(ctx: Context, params: AgentsToClear) -> Outcome:
    """Delete the integrity results of agents older than v3.12.0."""
    return await _clear(ctx)


async def _clear(ctx: Context) -> Outcome:
    return await clear(ctx, CLEAR_OWN, _refusal, manager=1760, hidden=(1015, 1760))


def _refusal(agent: LocatedAgent) -> int | None:
    if not agent.version:
        return 1015
    return 1760 if compare(agent.version, SYNCHRONIZES_SINCE) >= 0 else None


@operation(
    "DELETE", "/internal/own-inventory/syscheck", params=OwnAgents, open_to_all=True, catalogue=INTERNAL, item=str,
    messages=CLEARED,
)  # fmt: skip
async def clear_own_entries(ctx: Context, params: OwnAgents) -> Outcome:
    """Delete the integrity results of agents of this node."""
    return await clear_own(ctx, params.agents, fim_entries, COMPONENTS)
