"""Reads of data sets (place AGENT): the master finds the nodes of the agents, asks them, and merges their rows.

A node has the rows of the agents that report to it, or that reported to it last. Rows of agents that are not connected
are served too: how old they are is in ``synchronization``.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import fields

from secmon.agents.registry.agent_fields import MANAGER_ID
from secmon.cluster.executor import QUERY_PARAMETERS, Context, read_query
from secmon.common import query
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome, Result, merge
from secmon.operations.agents.node_requests import (
    LocatedAgent,
    NodeRequest,
    call_node,
    call_shares,
    find_agent,
    find_agents,
)
from secmon.operations.inventory.data_sets import DataSet
from secmon.operations.inventory.node_reads import Synchronization, read_name

NEVER_CONNECTED = "never_connected"


async def read_agent(ctx: Context, params: Any, data_set: DataSet, *, unknown: int | None = None) -> Result:
    """The rows of the agent that ``params`` names; none of the manager, which reports nothing of its own host.

    An agent that does not exist is a failed item 1701; with ``unknown``, this error of the whole request. Raises 2007
    for an agent that never connected, and what its node raises.
    """
    read_query(params, data_set.fields)  # a wrong query is refused whichever node would be asked
    outcome = Outcome(extra={"synchronization": to_builtins(Synchronization())} if data_set.components else {})
    if params.agent_id == MANAGER_ID:
        return outcome
    try:
        agent = await find_reporting_agent(ctx, params.agent_id)
    except SecmonError as error:
        if error.code != 1701:
            raise
        if unknown is not None:
            raise SecmonError(unknown, ids=error.ids) from None
        outcome.fail(error)
        return outcome
    return await call_node(ctx, NodeRequest(read_name(data_set), _asked(params, data_set)), agent)


async def find_reporting_agent(ctx: Context, agent: str) -> LocatedAgent:
    """The agent with this id. Raises 1701, and 2007 when it never connected."""
    found = await find_agent(ctx, agent)
    if found.status == NEVER_CONNECTED:
        raise SecmonError(2007, ids=(agent,))
    return found


async def read_agents_rows(ctx: Context, params: Any, data_set: DataSet) -> Outcome:
    """The page of the rows of all agents that the request names, or that the caller may read.

    Each node sends the rows of its own agents from the first one to the end of the page, however many it has. Agents
    that never connected are left out; those that the request names fail with 2007, unknown ones with 1701. Raises 2007
    when all that is named never connected.
    """
    asked = read_query(params, data_set.fields)
    grant = ctx.grant("agent:id")
    found = await find_agents(ctx, grant)
    reporting = [one for one in found if one.status != NEVER_CONNECTED]
    outcome = Outcome()
    if grant.explicit:
        _fail_others(outcome, grant.ids, found, reporting)
    share = {"share": True, "offset": 0, "limit": asked.offset + asked.limit}
    node_request = NodeRequest(read_name(data_set), _asked(params, data_set) | share)
    shares = await call_shares(ctx, node_request, reporting)
    whole = merge([*shares, outcome])
    ordered = replace(asked, sort=data_set.order(asked), select=asked.select or data_set.fields.select)
    page = query.merge([query.Part(one.items, one.count) for one in shares], ordered, data_set.fields)
    whole.items, whole.total = list(page.items), page.total
    return whole


def _fail_others(
    outcome: Outcome, ids: Sequence[str], found: Sequence[LocatedAgent], reporting: Sequence[LocatedAgent]
) -> None:
    known = {one.id for one in found}
    if unknown := [one for one in ids if one not in known and one != MANAGER_ID]:
        outcome.fail(SecmonError(1701), *unknown)
    if silent := [one.id for one in found if one.status == NEVER_CONNECTED]:
        if len(silent) == len(ids):
            raise SecmonError(2007, ids=tuple(silent))
        outcome.fail(SecmonError(2007), *silent)


def _asked(params: Struct, data_set: DataSet) -> dict[str, Any]:
    """The parameters of the node's operation, its agents aside."""
    given = {field.encode_name: getattr(params, field.name) for field in fields(params)}
    filters = {
        name: str(value)
        for name, value in given.items()
        if value is not None and (name in data_set.columns or name in data_set.filters)
    }
    return {name: value for name, value in given.items() if name in QUERY_PARAMETERS} | {"filters": filters}
