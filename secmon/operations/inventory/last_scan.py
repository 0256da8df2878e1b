"""When an agent's last scan began and ended."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from secmon.agents.registry.agent_fields import MANAGER_ID
from secmon.cluster.executor import Context
from secmon.common.outcome import Outcome, Result
from secmon.operations.agents.node_requests import NodeRequest, call_node, find_agent
from secmon.operations.inventory.reads import NEVER_CONNECTED


class LastScan(Struct, frozen=True):
    """Times of the last scan; null where there was none, or where it has not ended."""

    start: str | None
    end: str | None


def last_scan(start: int | None, end: int | None, shown: Callable[[int], str | None]) -> Outcome:
    """The one item for times in seconds since 1970. An end before the start is that of an earlier scan."""
    ended = start and end and end >= start
    item = {"start": shown(start) if start else None, "end": shown(end) if end and ended else None}
    return Outcome(items=[item])


async def read_last_scan(ctx: Context, agent: str, operation: str) -> Result:
    """The answer of the agent's node to an internal operation. Raises 1701.

    Both times are null for an agent that never connected, and for the manager.
    """
    nothing: dict[str, Any] = {"start": None, "end": None}
    if agent == MANAGER_ID:
        return Outcome(items=[nothing])
    found = await find_agent(ctx, agent)
    if found.status == NEVER_CONNECTED:
        return Outcome(items=[nothing])
    return await call_node(ctx, NodeRequest(operation), found)
