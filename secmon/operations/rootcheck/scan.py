"""``PUT /rootcheck`` (agent-data.md 6.4)."""

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.common.outcome import Outcome
from secmon.operations.agents.commands import TargetAgents
from secmon.operations.syscheck.scan import STARTED, request_scan
from secmon.security.rbac.authorization import Require


@operation(
    "PUT", "/rootcheck", params=TargetAgents, place=Place.AGENT, item=str, messages=STARTED,
    require=(Require("rootcheck:run", "agent:id", param="agents_list", mode="each"),),
)  # fmt: skip
async def scan_for_rootkits(ctx: Context, params: TargetAgents) -> Outcome:
    """Have agents scan for rootkits, and for changed files."""
    return await request_scan(ctx)
