"""Deletion of what agents have reported, on the nodes that have it."""

import asyncio
from collections.abc import Callable, Collection, Sequence

from sqlalchemy import Connection, Table, delete, update

from secmon.agents.names import padded
from secmon.agents.registry.agent_fields import MANAGER_ID
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Common
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome
from secmon.inventory.schema import synchronizations
from secmon.operations.agents.node_requests import LocatedAgent, NodeRequest, call_shares, find_agents
from secmon.operations.agents.parameters import AgentIdOrAll
from secmon.operations.inventory.columns import among
from secmon.operations.inventory.reads import NEVER_CONNECTED

CLEARED = Messages(
    all="The results were deleted", some="The results of some agents were not deleted", none="No results were deleted"
)


class AgentsToClear(Common, frozen=True, kw_only=True):
    """The agents, or `all`."""

    agents_list: list[AgentIdOrAll]


async def clear(
    ctx: Context,
    operation: str,
    refusal: Callable[[LocatedAgent], int | None],
    *,
    manager: int,
    hidden: Collection[int] = (),
) -> Outcome:
    """Delete what the permitted agents have reported, with an internal operation of their nodes; their ids, ordered.

    ``refusal``: the code with which an agent fails. ``manager``: that for agent 000. Unknown agents fail with 1701.
    Failures with codes that are ``hidden`` are left out unless the request names the agents.
    """
    grant = ctx.grant("agent:id")
    found = await find_agents(ctx, grant)
    outcome = Outcome()
    known = {one.id for one in found} | {MANAGER_ID}
    for one in grant.ids if grant.explicit else ():
        if one == MANAGER_ID or one not in known:
            outcome.fail(SecmonError(manager if one == MANAGER_ID else 1701), one)
    holding = []
    for agent in found:
        code = refusal(agent)
        if code is not None:
            outcome.failing(agent.id, hidden=() if grant.explicit else hidden)(SecmonError(code))
        elif agent.status == NEVER_CONNECTED:  # nothing of it is stored anywhere
            outcome.items.append(agent.id)
        else:
            holding.append(agent)
    for share in await call_shares(ctx, NodeRequest(operation), holding):
        outcome.items += share.items
        outcome.failures += share.failures
        outcome.node_errors |= share.node_errors
    outcome.items.sort(key=int)
    return outcome


async def clear_own(ctx: Context, agents: Sequence[int], table: Table, components: Sequence[str] = ()) -> Outcome:
    """Delete the rows of agents of this node, in one transaction; their ids.

    The cached checksums of ``components`` become void, so that the next round of the agent restores what it still has
    (agent-data.md 11).
    """

    def delete_rows(connection: Connection) -> None:
        connection.execute(delete(table).where(among(table.c.agent_id, agents)))
        if components:
            rounds = synchronizations.c
            concerned = among(rounds.agent_id, agents) & rounds.component.in_(components)
            connection.execute(update(synchronizations).where(concerned).values(last_manager_checksum=""))

    def work() -> None:
        with ctx.node.inventory.write() as connection:
            delete_rows(connection)

    await asyncio.to_thread(work)
    return Outcome(items=[padded(one) for one in agents])
