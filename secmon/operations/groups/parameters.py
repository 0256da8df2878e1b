"""What the operations on groups share: parameters, requirements, and work on the registry of agents."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Annotated, TypeVar

from msgspec import Meta
from sqlalchemy import Connection

from secmon.agents.groups.folders import require_group
from secmon.agents.names import padded
from secmon.agents.registry import registry
from secmon.agents.registry.agent_fields import MANAGER_ID, is_agent_id
from secmon.agents.registry.entries import Entry, entries
from secmon.cluster.executor import Context, authorizer
from secmon.cluster.parameters import Common, text_format
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome
from secmon.operations.agents.parameters import GroupName
from secmon.security.rbac.authorization import Grant, Require
from secmon.security.rbac.evaluate import Scope

GroupNameOrAll = Annotated[str, text_format("group_names_or_all", r"(?!\.{1,2}$)[A-Za-z0-9.\-_]+"), Meta(min_length=1)]

READ_GROUP = Require("group:read", "group:id", param="group_id")
ASSIGN_GROUP = Require("group:modify_assignments", "group:id", param="group_id")

T = TypeVar("T")


class GroupPath(Common, frozen=True, kw_only=True):
    """An operation on one group."""

    group_id: GroupName


async def off_loop(work: Callable[[], T]) -> T:
    """The result of ``work``, which blocks."""
    return await asyncio.to_thread(work)


async def change_registry(ctx: Context, change: Callable[[Connection], T]) -> T:
    """One transaction on the registry of agents, off the event loop; errors of ``change`` undo it."""

    def work() -> T:
        with ctx.node.agents.write() as connection:
            return change(connection)

    return await asyncio.to_thread(work)


async def existing_group(ctx: Context, name: str) -> None:
    """Raises 1710 (404) where there is no such group, 1722 for what no group can be called."""
    await asyncio.to_thread(require_group, ctx.node.paths, name)


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
    """The groups whose members the caller may change; for judging those that an agent would lose."""
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
