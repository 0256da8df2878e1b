"""``/groups``: the groups of agents."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from sqlalchemy import Connection, func, select

from secmon.agents.groups.contents import Algorithm, hash_file
from secmon.agents.groups.folders import AGENT_CONF, MERGED, create_group, delete_detached, detach_group, list_groups
from secmon.agents.names import DEFAULT_GROUP, padded
from secmon.agents.registry import registry
from secmon.agents.registry.agent_fields import FIELDS, Condition, with_value
from secmon.agents.registry.schema import agent_groups
from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context, read_query
from secmon.cluster.node import Node
from secmon.cluster.parameters import (
    Common,
    Distinct,
    Limit,
    Listing,
    Offset,
    Q,
    SearchFor,
    Select,
    SortBy,
)
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome, Plain
from secmon.common.query import Fields, Sort
from secmon.common.sqlite.engine import attempt
from secmon.operations.agents.listing import READ_ANY, list_page
from secmon.operations.agents.parameters import GroupName, Status
from secmon.operations.agents.read import LISTED, Agent
from secmon.operations.groups.parameters import (
    READ_GROUP,
    GroupNameOrAll,
    GroupPath,
    require_group_exists,
)
from secmon.security.rbac.authorization import Grant, Require

Hash = Annotated[Algorithm, Meta(description="Algorithm of the sums.")]


class Group(Struct):
    """A group: its agents, and the sums of its merged file and of its ``agent.conf``."""

    name: str
    count: int
    mergedSum: str | None = None
    configSum: str | None = None


class GroupsQuery(Listing, frozen=True, kw_only=True):
    """Query parameters of GET /groups."""

    groups_list: list[GroupName] | None = None
    hash: Hash = "md5"


class NewGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """The name of a new group."""

    group_id: Annotated[GroupName, Meta(max_length=128)]


class PostGroup(Common, frozen=True, kw_only=True):
    """Body of POST /groups."""

    body: NewGroup


class DeleteGroups(Common, frozen=True, kw_only=True):
    """Query parameters of DELETE /groups; ``all``: all groups that the caller may delete."""

    groups_list: list[GroupNameOrAll]


class MembersQuery(GroupPath, frozen=True, kw_only=True):
    """Parameters of GET /groups/{group_id}/agents."""

    offset: Offset = 0
    limit: Limit = 500
    sort: SortBy = None
    search: SearchFor = None
    select: Select = None
    q: Q = None
    distinct: Distinct = False
    status: Annotated[list[Status] | None, Meta(description="Only agents of one of these statuses.")] = None


_SHOWN = ("name", "mergedSum", "configSum", "count")
GROUP_FIELDS = Fields(engine="list", select=_SHOWN, sort=_SHOWN, required=("name",))
_UNREPORTED = (1710, 1712)
"""Codes of failures that are left out for groups that the request does not name."""


@operation(
    "GET", "/groups", params=GroupsQuery, place=Place.MASTER, item=Group, fields=GROUP_FIELDS,
    default_sort=Sort(("name",)), require=(Require("group:read", "group:id", param="groups_list", mode="each"),),
    messages=Messages(
        all="All the groups were read", some="Some of the groups could not be read", none="No group was read"
    ),
)  # fmt: skip
async def read_groups(ctx: Context, params: GroupsQuery) -> Outcome:
    """The groups, with the number of their agents."""
    return await asyncio.to_thread(_groups, ctx.node, ctx.grant("group:id"), params.hash)


def _groups(node: Node, grant: Grant, algorithm: Algorithm) -> Outcome:
    existing = list_groups(node.paths)
    with node.agents.read() as connection:
        counts = _counts(connection)
    outcome = Outcome()
    for name in grant.select(existing):
        if name not in existing:
            outcome.fail(SecmonError(1710), name)
            continue
        merged, config = (hash_file(node.paths, name, file, algorithm) for file in (MERGED, AGENT_CONF))
        sums = {"mergedSum": merged, "configSum": config}
        shown = {key: value for key, value in sums.items() if value is not None}
        outcome.items.append({"name": name, "count": counts.get(name, 0), **shown})
    return outcome


def _counts(connection: Connection) -> Mapping[str, int]:
    statement = select(agent_groups.c.name, func.count().label("number")).group_by(agent_groups.c.name)
    return {row.name: row.number for row in connection.execute(statement)}


@operation(
    "POST", "/groups", params=PostGroup, place=Place.MASTER, changes_files=True, require=(Require("group:create"),)
)
async def make_group(ctx: Context, params: PostGroup) -> Plain:
    """Make a group without agents; its configuration is a copy of the template."""
    name = params.body.group_id
    await asyncio.to_thread(create_group, ctx.node.paths, name)
    return Plain(message=f"The group {name} was made")


@operation(
    "DELETE", "/groups", params=DeleteGroups, place=Place.MASTER, item=str, extra={"affected_agents": list[str]},
    changes_files=True, require=(Require("group:delete", "group:id", param="groups_list", mode="each"),),
    messages=Messages(
        all="The groups were deleted", some="Some of the groups were not deleted", none="No group was deleted"
    ),
)  # fmt: skip
async def delete_groups(ctx: Context, params: DeleteGroups) -> Outcome:
    """Delete groups with their files; agents that were in no other one fall back to the group default."""
    # In one thread, which is not interrupted: folders follow the registry even if the client disconnects.
    return await asyncio.to_thread(_delete, ctx.node, ctx.grant("group:id"))


def _delete(node: Node, grant: Grant) -> Outcome:
    paths, outcome = node.paths, Outcome()
    members: set[int] = set()
    aside: dict[str, Path] = {}
    failed = outcome.failing(hidden=() if grant.explicit else _UNREPORTED)
    try:
        # Assignments wait for this transaction: no agent is put into a group that is being deleted.
        with node.agents.write() as connection:
            for name in grant.select(list_groups(paths)):
                with attempt(connection, failed):
                    moved = registry.remove_group_everywhere(connection, name) if name != DEFAULT_GROUP else []
                    aside[name] = detach_group(paths, name)
                    members.update(moved)
    except BaseException:
        for name, folder in aside.items():
            folder.rename(paths.shared / name)  # the agents are still in it
        raise
    delete_detached(*aside.values())
    outcome.items = list(aside)
    outcome.extra["affected_agents"] = [padded(agent) for agent in sorted(members)]
    return outcome


@operation(
    "GET", "/groups/{group_id}/agents", params=MembersQuery, place=Place.MASTER, require=(READ_GROUP, READ_ANY),
    messages=LISTED, item=Agent,
)  # fmt: skip
async def list_members(ctx: Context, params: MembersQuery) -> Outcome:
    """The agents of a group."""
    await require_group_exists(ctx, params.group_id)
    where = [_member_of(params.group_id), *([with_value("status", *params.status)] if params.status else [])]
    return await list_page(ctx, read_query(params, FIELDS), where, manager=False)


def _member_of(group: str) -> Condition:
    members = select(agent_groups.c.agent_id).where(agent_groups.c.name == group)
    return lambda columns: columns["id"].expression.in_(members)
