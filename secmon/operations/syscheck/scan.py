"""``PUT /syscheck``, and the message that starts the scans of agents (agent-data.md 1.2, 3.7)."""

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.common.outcome import Messages, Outcome
from secmon.operations.agents.commands import UNREPORTED, OwnAgents, TargetAgents, send_each
from secmon.operations.agents.node_requests import NodeRequest, call_nodes
from secmon.operations.internal import INTERNAL
from secmon.security.rbac.authorization import Require

SCAN = "#!-syscheck restart"
SCAN_OWN = "PUT /internal/own-agents/scan"
STARTED = Messages(
    all="The scan was requested from the agents", some="The scan was not requested from some of the agents",
    none="The scan was requested from no agent",
)  # fmt: skip


@operation(
    "PUT", "/syscheck", params=TargetAgents, place=Place.AGENT, item=str, messages=STARTED,
    require=(Require("syscheck:run", "agent:id", param="agents_list", mode="each"),),
)  # fmt: skip
async def scan_files(ctx: Context, params: TargetAgents) -> Outcome:
    """Have agents scan for changed files, and for rootkits."""
    return await request_scan(ctx)


async def request_scan(ctx: Context) -> Outcome:
    """Send the permitted agents the message; both scans follow, integrity and rootcheck."""
    grant = ctx.grant("agent:id")
    return await call_nodes(ctx, NodeRequest(SCAN_OWN), grant, hidden=() if grant.explicit else UNREPORTED)


@operation(
    "PUT", "/internal/own-agents/scan", params=OwnAgents, open_to_all=True, catalogue=INTERNAL, item=str,
    messages=STARTED,
)  # fmt: skip
async def scan_own_agents(ctx: Context, params: OwnAgents) -> Outcome:
    """Have agents of this node scan."""
    return await send_each(ctx, dict.fromkeys(params.agents), lambda _: SCAN)
