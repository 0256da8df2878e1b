"""``GET /syscollector/{agent_id}/X`` and ``GET /experimental/syscollector/X`` (agent-data.md 4.8)."""

from typing import Any

from secmon.cluster.catalogue import CATALOGUE, Function, Operation, Place
from secmon.cluster.executor import Context
from secmon.common.outcome import Messages, Outcome, Result
from secmon.operations.inventory.data_sets import DataSet
from secmon.operations.inventory.node_reads import Synchronization, declare_node_read
from secmon.operations.inventory.reads import read_agent, read_agents_rows
from secmon.operations.inventory.shapes import AgentListing, AgentSelection, AgentsListing, item_type, with_filters
from secmon.operations.syscollector.data_sets import INVENTORY_SETS, InventorySet
from secmon.security.rbac.authorization import Require

READ = Messages(
    all="The inventory was read", some="The inventory of some agents could not be read", none="No inventory was read"
)


def _declare(one: InventorySet) -> None:
    """The operations on ``one``: of an agent, of all agents, and the internal one of their nodes."""
    declare_node_read(one.data_set)
    item, base = item_type(one.title, one.data_set), AgentListing if one.paged else AgentSelection
    CATALOGUE.add(
        Operation(
            method="GET",
            path=f"/syscollector/{{agent_id}}/{one.data_set.name}",
            summary=f"{one.what} of an agent's host.",
            params=with_filters(base, one.filters),
            function=_of_agent(one.data_set),
            place=Place.AGENT,
            require=(Require("syscollector:read", "agent:id", param="agent_id"),),
            messages=READ,
            item=item,
            extra={"synchronization": Synchronization},
        )
    )
    if one.experimental:
        CATALOGUE.add(
            Operation(
                method="GET",
                path=f"/experimental/syscollector/{one.data_set.name}",
                summary=f"{one.what} of the hosts of agents.",
                params=with_filters(AgentsListing, one.filters_of_all or one.filters),
                function=_of_agents(one.data_set),
                place=Place.AGENT,
                require=(Require("syscollector:read", "agent:id", param="agents_list", mode="each"),),
                messages=READ,
                item=item,
            )
        )


def _of_agent(data_set: DataSet) -> Function:
    async def read(ctx: Context, params: Any) -> Result:
        return await read_agent(ctx, params, data_set)

    return read


def _of_agents(data_set: DataSet) -> Function:
    async def read(ctx: Context, params: Any) -> Outcome:
        return await read_agents_rows(ctx, params, data_set)

    return read


for _each in INVENTORY_SETS:
    _declare(_each)
