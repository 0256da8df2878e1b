"""``/agents/group`` and ``/agents/{agent_id}/group``: assignments of agents to groups (agent-link.md 7.4)."""

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from typing import Annotated, TypeVar

from msgspec import Meta, Struct
from sqlalchemy import Connection, select

from secmon.agents.groups.folders import group_exists, merged_path, require_group
from secmon.agents.names import DEFAULT_GROUP, MAX_GROUPS, padded
from secmon.agents.registry import registry
from secmon.agents.registry.agent_fields import MANAGER_ID, is_agent_id
from secmon.agents.registry.entries import Entry, entries
from secmon.agents.registry.schema import agents
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context, authorizer
from secmon.cluster.parameters import Common
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome, Plain
from secmon.common.sqlite.engine import attempt
from secmon.operations.agents.listing import read_agents
from secmon.operations.agents.parameters import AgentId, AgentIdOrAll, GroupName
from secmon.operations.groups.parameters import ASSIGN_GROUP, require_group_exists
from secmon.security.rbac.authorization import Grant, Require
from secmon.security.rbac.evaluate import Scope

T = TypeVar("T")

ForceSingle = Annotated[bool, Meta(description="Take the agents out of all their other groups.")]

MODIFY_AGENT = Require("agent:modify_group", "agent:id", param="agent_id")
MODIFY_AGENTS = Require("agent:modify_group", "agent:id", param="agents_list", mode="each")
READ_AGENT = Require("agent:read", "agent:id", param="agent_id")

ASSIGNED = Messages(
    all="The agents were assigned to the group", some="Some of the agents were not assigned to the group",
    none="No agent was assigned to the group",
)  # fmt: skip
REMOVED = Messages(
    all="The agents were taken out of the group", some="Some of the agents were not taken out of the group",
    none="No agent was taken out of the group",
)  # fmt: skip
REMOVED_FROM_GROUPS = Messages(
    all="The agent was taken out of the groups", some="The agent was not taken out of some of the groups",
    none="The agent was not taken out of any group",
)  # fmt: skip
SYNCHRONIZED = Messages(all="The state of the agent's files was read", none="No state was read")


class AgentSynced(Struct):
    """Whether an agent has the files of its groups."""

    id: str
    synced: bool


class AgentPath(Common, frozen=True, kw_only=True):
    """Path of an operation on one agent."""

    agent_id: AgentId


class AssignAgents(Common, frozen=True, kw_only=True):
    """Query parameters of PUT /agents/group; without a list all agents that the caller may change."""

    group_id: GroupName
    agents_list: list[AgentId] | None = None
    force_single_group: ForceSingle = False


class RemoveAgentsFromGroup(Common, frozen=True, kw_only=True):
    """Query parameters of DELETE /agents/group; ``all``: all agents that the caller may change."""

    group_id: GroupName
    agents_list: list[AgentIdOrAll]


class AssignAgent(AgentPath, frozen=True, kw_only=True):
    """Parameters of PUT /agents/{agent_id}/group/{group_id}."""

    group_id: GroupName
    force_single_group: ForceSingle = False


class RemoveAgentFromGroup(AgentPath, frozen=True, kw_only=True):
    """Path of DELETE /agents/{agent_id}/group/{group_id}."""

    group_id: GroupName


class RemoveAgentFromGroups(AgentPath, frozen=True, kw_only=True):
    """Parameters of DELETE /agents/{agent_id}/group; without a list all of its groups that the caller may change."""

    groups_list: list[GroupName] | None = None


@operation(
    "PUT", "/agents/group", params=AssignAgents, place=Place.MASTER, item=str, require=(ASSIGN_GROUP, MODIFY_AGENTS),
    messages=ASSIGNED,
)  # fmt: skip
async def assign_agents(ctx: Context, params: AssignAgents) -> Outcome:
    """Put agents into a group, which then has the highest priority of theirs."""
    return await _assign(ctx, params)


@operation(
    "PUT", "/agents/{agent_id}/group/{group_id}", params=AssignAgent, place=Place.MASTER, item=str,
    require=(ASSIGN_GROUP, MODIFY_AGENT), messages=ASSIGNED,
)  # fmt: skip
async def assign_agent(ctx: Context, params: AssignAgent) -> Outcome:
    """Put an agent into a group, which then has the highest priority of its groups."""
    return await _assign(ctx, params)


async def _assign(ctx: Context, params: AssignAgents | AssignAgent) -> Outcome:
    group, force, outcome = params.group_id, params.force_single_group, Outcome()
    grant, scope = ctx.grant("agent:id"), assignable_groups(ctx)
    await require_group_exists(ctx, group)

    def groups_of(entry: Entry) -> tuple[str, ...]:
        if force and not all(name in scope for name in entry.groups):
            raise SecmonError(1752, ids=(entry.padded,))
        if not force and group in entry.groups:
            raise SecmonError(1751, ids=(entry.padded,))
        if not force and len(entry.groups) >= MAX_GROUPS:
            raise SecmonError(1737, ids=(entry.padded,))
        return (group,) if force else (*entry.groups, group)

    def change(connection: Connection) -> None:
        # Again, under the lock of the registry: deletions of groups hold it too.
        require_group(ctx.node.paths, group)
        failed = outcome.failing(hidden=() if grant.explicit else (1701, 1703, 1751, 1752))
        outcome.items = regroup(connection, selected_agents(connection, grant, outcome), groups_of, failed)

    await change_registry(ctx, change)
    return outcome


@operation(
    "DELETE", "/agents/group", params=RemoveAgentsFromGroup, place=Place.MASTER, item=str, messages=REMOVED,
    require=(ASSIGN_GROUP, MODIFY_AGENTS),
)  # fmt: skip
async def remove_agents_from_group(ctx: Context, params: RemoveAgentsFromGroup) -> Outcome:
    """Take agents out of a group; out of their last one, they go to the group default."""
    group, grant, outcome = params.group_id, ctx.grant("agent:id"), Outcome()
    await require_group_exists(ctx, group)

    def change(connection: Connection) -> None:
        failed = outcome.failing(hidden=() if grant.explicit else (1701, 1703, 1734))
        members = selected_agents(connection, grant, outcome)
        outcome.items = regroup(connection, members, lambda entry: _without(entry, group), failed)

    await change_registry(ctx, change)
    return outcome


def _without(entry: Entry, group: str) -> tuple[str, ...]:
    """The agent's other groups. Raises 1734, 1745."""
    if group not in entry.groups:
        raise SecmonError(1734, ids=(entry.padded,))
    if entry.groups == (DEFAULT_GROUP,):
        raise SecmonError(1745, ids=(entry.padded,))
    return tuple(name for name in entry.groups if name != group)


@operation(
    "DELETE", "/agents/{agent_id}/group/{group_id}", params=RemoveAgentFromGroup, place=Place.MASTER,
    require=(ASSIGN_GROUP, MODIFY_AGENT),
)  # fmt: skip
async def remove_agent_from_group(ctx: Context, params: RemoveAgentFromGroup) -> Plain:
    """Take an agent out of a group; out of its last one, it goes to the group default."""
    agent, group = params.agent_id, params.group_id
    await require_group_exists(ctx, group)
    await change_registry(
        ctx, lambda connection: registry.remove_group(connection, known_agent(connection, agent).id, group)
    )
    return Plain(message=f"Agent {agent} was taken out of the group {group}")


@operation(
    "DELETE", "/agents/{agent_id}/group", params=RemoveAgentFromGroups, place=Place.MASTER, item=str,
    require=(
        MODIFY_AGENT, Require("group:modify_assignments", "group:id", param="groups_list", mode="each"),
    ),
    messages=REMOVED_FROM_GROUPS,
)  # fmt: skip
async def remove_agent_from_groups(ctx: Context, params: RemoveAgentFromGroups) -> Outcome:
    """Take an agent out of groups; out of the last one, it goes to the group default."""
    agent, grant, outcome = params.agent_id, ctx.grant("group:id"), Outcome()

    hidden = () if grant.explicit else (1710, 1734, 1745)

    def change(connection: Connection) -> None:
        entry = known_agent(connection, agent)
        # The group default is the last: an agent that is in no other one cannot leave it.
        for group in sorted(grant.select(entry.groups), key=lambda name: (name == DEFAULT_GROUP, name)):
            with attempt(connection, outcome.failing(group, hidden=hidden)):
                if group not in entry.groups and not group_exists(ctx.node.paths, group):
                    raise SecmonError(1710)
                registry.remove_group(connection, entry.id, group)
                outcome.items.append(group)
        outcome.items.sort()

    await change_registry(ctx, change)
    return outcome


@operation(
    "GET", "/agents/{agent_id}/group/is_sync", params=AgentPath, place=Place.MASTER, item=AgentSynced,
    require=(READ_AGENT,), messages=SYNCHRONIZED, deprecated="4.4",
)  # fmt: skip
async def is_synchronized(ctx: Context, params: AgentPath) -> Outcome:
    """Whether an agent has the newest files of its groups."""
    agent, outcome = params.agent_id, Outcome()

    def read(connection: Connection) -> tuple[str | None, str | None]:
        number = known_agent(connection, agent).id
        group, held = connection.execute(select(agents.c.group, agents.c.merged_sum).where(agents.c.id == number)).one()
        return group, held

    try:
        group, held = await read_agents(ctx, read)
    except SecmonError as error:
        outcome.fail(error)
        return outcome
    present = None if group is None else await asyncio.to_thread(_merged_sum, ctx, group)
    outcome.items.append({"id": agent, "synced": present is not None and present == held})
    return outcome


def _merged_sum(ctx: Context, joined: str) -> str | None:
    """The md5 that an agent of these groups should report; None while there is no merged file."""
    try:
        return hashlib.md5(merged_path(ctx.node.paths, joined).read_bytes(), usedforsecurity=False).hexdigest()
    except OSError:
        return None


async def change_registry(ctx: Context, change: Callable[[Connection], T]) -> T:
    """One transaction on the registry of agents, off the event loop; an error of ``change`` rolls it back."""

    def work() -> T:
        with ctx.node.agents.write() as connection:
            return change(connection)

    return await asyncio.to_thread(work)


def selected_agents(connection: Connection, grant: Grant, outcome: Outcome) -> list[Entry]:
    """The agents that the request names, or all that the caller may change; by id.

    Named ones fail with 1703 (the manager) or 1701 (unknown).
    """
    if not grant.explicit:
        return [entry for entry in entries(connection) if entry.padded in grant.scope]
    found = []
    for one in grant.ids:
        try:
            found.append(known_agent(connection, one))
        except SecmonError as error:
            outcome.fail(error)
    return sorted(found, key=lambda entry: entry.id)


def known_agent(connection: Connection, agent: str) -> Entry:
    """Raises 1703 for the manager, 1701 for an unknown agent."""
    if agent == MANAGER_ID:
        raise SecmonError(1703, ids=(agent,))
    entry = registry.find(connection, int(agent)) if is_agent_id(agent) else None
    if entry is None:
        raise SecmonError(1701, ids=(agent,))
    return entry


def assignable_groups(ctx: Context) -> Scope:
    """The groups whose members the caller may change; an agent must not lose others."""
    require = Require("group:modify_assignments", "group:id", mode="restrict")
    return authorizer(ctx.node, ctx.call).check(require).scope


def regroup(
    connection: Connection,
    members: Iterable[Entry],
    groups_of: Callable[[Entry], tuple[str, ...]],
    failed: Callable[[SecmonError], object],
) -> list[str]:
    """Give each agent the groups that ``groups_of`` computes, all in one revision; the ids of those agents.

    ``groups_of`` only reads: an agent that it refuses (SecmonError) is passed to ``failed`` and keeps its groups.
    """
    wanted: dict[int, tuple[str, ...]] = {}
    for entry in members:
        try:
            wanted[entry.id] = groups_of(entry)
        except SecmonError as error:
            failed(error)
    registry.assign(connection, wanted)
    return [padded(agent) for agent in wanted]
