"""``/agents``: lists, counts and summaries of agents (conventions.md 5 and 6)."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy import Connection

from secmon.agents.registry.agent_fields import FIELDS, other_than, without_group
from secmon.agents.registry.queries import COUNT, count_combinations, read_platforms
from secmon.agents.wire.version import MANAGER_VERSION
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context, read_query
from secmon.cluster.parameters import Common, Distinct, Limit, Names, Offset, Q, SearchFor, Select, SortBy
from secmon.common.outcome import Messages, Outcome, Plain
from secmon.common.query import Page, Query
from secmon.operations.agents.listing import (
    READ_ANY,
    READ_NAMED,
    list_page,
    manager_in_scope,
    read_agents,
    scope_conditions,
    scope_of,
    summarize,
)
from secmon.operations.agents.parameters import AgentFilters, AgentId, Status, conditions
from secmon.security.rbac.authorization import Require

Text = str | UnsetType

STATISTICS = replace(FIELDS, sort=(*(FIELDS.select or ()), COUNT))
"""Fields of ``GET /agents/stats/distinct``, which also sorts by the count."""


class AgentOS(Struct):
    """The operating system of an agent, as it reported it."""

    name: Text = UNSET
    version: Text = UNSET
    platform: Text = UNSET
    codename: Text = UNSET
    major: Text = UNSET
    minor: Text = UNSET
    uname: Text = UNSET
    arch: Text = UNSET
    build: Text = UNSET


class Agent(Struct):
    """An agent; what is not known of it, or not selected, is left out."""

    id: Text = UNSET
    name: Text = UNSET
    ip: Text = UNSET
    registerIP: Text = UNSET
    status: Status | UnsetType = UNSET
    status_code: int | UnsetType = UNSET
    version: Text = UNSET
    manager: Text = UNSET
    node_name: Text = UNSET
    dateAdd: Text = UNSET
    lastKeepAlive: Text = UNSET
    disconnection_time: Text = UNSET
    group: list[str] | UnsetType = UNSET
    group_config_status: Literal["synced", "not synced"] | UnsetType = UNSET
    mergedSum: Text = UNSET
    configSum: Text = UNSET
    os: AgentOS | UnsetType = UNSET


class OutdatedAgent(Struct):
    """An agent of another version than the manager."""

    id: str
    name: str
    version: str


class Connections(Struct):
    """Agents by connection status."""

    active: int
    disconnected: int
    never_connected: int
    pending: int
    total: int


class Configurations(Struct):
    """Agents by whether they have the configuration of their groups."""

    synced: int
    not_synced: int
    total: int


class StatusSummary(Struct):
    """How many agents there are of each kind."""

    connection: Connections
    configuration: Configurations


class AgentsQuery(AgentFilters, frozen=True, kw_only=True):
    """Query parameters of GET /agents."""

    offset: Offset = 0
    limit: Limit = 500
    sort: SortBy = None
    search: SearchFor = None
    select: Select = None
    q: Q = None
    distinct: Distinct = False
    agents_list: list[AgentId] | None = None
    status: Annotated[list[Status] | None, Meta(description="Only agents of one of these statuses.")] = None
    group_config_status: Literal["synced", "not synced"] | None = None


class OutdatedQuery(Common, frozen=True, kw_only=True):
    """Query parameters of GET /agents/outdated."""

    offset: Offset = 0
    limit: Limit = 500
    sort: SortBy = None
    search: SearchFor = None
    q: Q = None


class UngroupedQuery(OutdatedQuery, frozen=True, kw_only=True):
    """Query parameters of GET /agents/no_group."""

    select: Select = None


class StatisticsQuery(OutdatedQuery, frozen=True, kw_only=True):
    """Query parameters of GET /agents/stats/distinct."""

    fields: Annotated[list[Names] | None, Meta(description="Fields to group by; all of them without it.")] = None


LISTED = Messages(all="All the agents were read", some="Some of the agents could not be read", none="No agent was read")
COUNTED = Messages(all="The agents were counted", none="There are no agents to count")
PLATFORMS = Messages(all="The platforms of the agents were read", none="No platform is known")


@operation("GET", "/agents", params=AgentsQuery, place=Place.MASTER, require=(READ_NAMED,), messages=LISTED, item=Agent)
async def list_agents(ctx: Context, params: AgentsQuery) -> Outcome:
    """Agents, and the manager as agent 000."""
    extra = {"group_config_status": params.group_config_status}
    where = conditions(params, ctx.node.clock.now(), status=params.status, extra=extra)
    return await list_page(ctx, read_query(params, FIELDS), where, ages=params.older_than is not None)


@operation(
    "GET", "/agents/no_group", params=UngroupedQuery, place=Place.MASTER, require=(READ_ANY,), messages=LISTED,
    item=Agent,
)  # fmt: skip
async def list_ungrouped(ctx: Context, params: UngroupedQuery) -> Outcome:
    """Agents that were never assigned to a group."""
    return await list_page(ctx, read_query(params, FIELDS), [without_group], manager=False)


@operation(
    "GET", "/agents/outdated", params=OutdatedQuery, place=Place.MASTER, require=(READ_ANY,), messages=LISTED,
    item=OutdatedAgent,
)  # fmt: skip
async def list_outdated(ctx: Context, params: OutdatedQuery) -> Outcome:
    """Agents of another version than the manager's."""
    query = replace(read_query(params, FIELDS), select=("id", "name", "version"))
    return await list_page(ctx, query, [other_than(MANAGER_VERSION)], manager=False)


@operation(
    "GET", "/agents/stats/distinct", params=StatisticsQuery, place=Place.MASTER, require=(READ_ANY,), messages=COUNTED,
    item=dict[str, Any],
)  # fmt: skip
async def count_distinct(ctx: Context, params: StatisticsQuery) -> Outcome:
    """How many agents share each combination of values of the fields given."""
    query, scope, now = read_query(params, STATISTICS), scope_of(ctx.grant("agent:id")), ctx.node.clock.now()
    fields = Query.parse(fields=FIELDS, select=params.fields).select or FIELDS.select or ()

    def read(connection: Connection) -> Page:
        manager = manager_in_scope(ctx, connection, scope)
        return count_combinations(connection, query, fields, now=now, where=scope_conditions(scope), manager=manager)

    page = await read_agents(ctx, read)
    return Outcome(items=list(page.items), total=page.total)


@operation(
    "GET", "/agents/summary/os", params=Common, place=Place.MASTER, require=(READ_ANY,), messages=PLATFORMS, item=str
)
async def list_platforms(ctx: Context, params: Common) -> Outcome:
    """The platforms that agents run on."""
    where = scope_conditions(scope_of(ctx.grant("agent:id")))
    return Outcome(items=list(await read_agents(ctx, lambda connection: read_platforms(connection, where))))


@operation("GET", "/agents/summary/status", params=Common, place=Place.MASTER, require=(READ_ANY,), data=StatusSummary)
async def summarize_status(ctx: Context, params: Common) -> Plain:
    """How many agents are connected, and how many have the configuration of their groups."""
    where = scope_conditions(scope_of(ctx.grant("agent:id")))
    return Plain(data=await read_agents(ctx, lambda connection: summarize(connection, where)))


@operation("GET", "/agents/uninstall", params=Common, place=Place.MASTER, require=(Require("agent:uninstall"),))
async def may_uninstall(ctx: Context, params: Common) -> Plain:
    """Whether the caller may uninstall agents: asked by their uninstallers."""
    return Plain(message="The user may uninstall agents")
