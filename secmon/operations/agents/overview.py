"""``GET /overview/agents``: a summary of all agents."""

from typing import Any

from msgspec import UNSET, Struct
from sqlalchemy import Connection

from secmon.agents.registry.agent_fields import FIELDS
from secmon.agents.registry.queries import count_combinations, count_groups, count_platforms, read_page
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Common
from secmon.common.outcome import Outcome, Plain
from secmon.common.query import Query
from secmon.common.query.query import MAX_LIMIT
from secmon.operations.agents.listing import (
    READ_ANY,
    READ_NAMED,
    manager_in_scope,
    read_agents,
    scope_conditions,
    scope_of,
    summarize,
)
from secmon.operations.agents.parameters import AgentId
from secmon.operations.agents.read import Agent, StatusSummary, Text
from secmon.operations.groups.groups import Group, GroupsQuery, read_groups
from secmon.security.rbac.authorization import Require


class AgentsOfNode(Struct):
    """How many agents a node serves, the manager on it counted."""

    node_name: str
    count: int


class System(Struct):
    """An operating system; ``unknown`` where agents have not said."""

    name: Text = UNSET
    platform: Text = UNSET
    version: Text = UNSET


class AgentsOfSystem(Struct):
    """How many agents run on a system."""

    os: System
    count: int


class AgentsOfVersion(Struct):
    """How many agents are of a version."""

    version: str
    count: int


class Overview(Struct):
    """Agents by node, group, system, status and version, and the one that was registered last."""

    nodes: list[AgentsOfNode]
    groups: list[Group]
    agent_os: list[AgentsOfSystem]
    agent_status: StatusSummary
    agent_version: list[AgentsOfVersion]
    last_registered_agent: list[Agent]


class NamedAgents(Common, frozen=True, kw_only=True):
    """The agents to count; without a list all that the caller may read."""

    agents_list: list[AgentId] | None = None


class AgentCounts(Struct):
    """How many agents there are of each status, platform and group; the manager is not counted."""

    status: dict[str, int]
    os: dict[str, int]
    groups: dict[str, int]


@operation("GET", "/agents/summary", params=NamedAgents, place=Place.MASTER, data=AgentCounts, require=(READ_NAMED,))
async def count_agents(ctx: Context, params: NamedAgents) -> Plain:
    """How many agents there are of each status, platform and group."""
    where = scope_conditions(scope_of(ctx.grant("agent:id")))

    def read(connection: Connection) -> dict[str, dict[str, int]]:
        status = summarize(connection, where)["connection"]
        del status["total"]
        return {"status": status, "os": count_platforms(connection, where), "groups": count_groups(connection, where)}

    return Plain(data=await read_agents(ctx, read))


@operation(
    "GET", "/overview/agents", params=Common, place=Place.MASTER, data=Overview,
    require=(READ_ANY, Require("group:read", "group:id", mode="restrict")),
)  # fmt: skip
async def overview(ctx: Context, params: Common) -> Plain:
    """Agents by node, group, system, status and version, and the one that was registered last."""
    groups = await read_groups(ctx, GroupsQuery())
    assert isinstance(groups, Outcome)
    return Plain(data={"groups": groups.items} | await read_agents(ctx, lambda connection: _agents(ctx, connection)))


def _agents(ctx: Context, connection: Connection) -> dict[str, Any]:
    scope, now = scope_of(ctx.grant("agent:id")), ctx.node.clock.now()
    where, manager = scope_conditions(scope), manager_in_scope(ctx, connection, scope)
    every = Query(limit=MAX_LIMIT)

    def counted(*fields: str) -> list[Any]:
        return count_combinations(connection, every, fields, now=now, where=where).items

    nodes = count_combinations(connection, every, ("node_name",), now=now, where=where, manager=manager).items
    last = Query.parse(fields=FIELDS, sort="-dateAdd,id", limit=1)
    return {
        "nodes": nodes,
        "agent_os": counted("os.name", "os.platform", "os.version"),
        "agent_status": summarize(connection, where),
        "agent_version": counted("version"),
        "last_registered_agent": read_page(connection, last, now=now, where=where).items,
    }
