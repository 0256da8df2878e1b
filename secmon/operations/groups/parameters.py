"""Parameters and requirements that operations on groups share."""

import asyncio
from typing import Annotated

from msgspec import Meta

from secmon.agents.groups.folders import require_group
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Common, text_format
from secmon.operations.agents.parameters import GroupName
from secmon.security.rbac.authorization import Require

GroupNameOrAll = Annotated[str, text_format("group_names_or_all", r"(?!\.{1,2}$)[A-Za-z0-9.\-_]+"), Meta(min_length=1)]

READ_GROUP = Require("group:read", "group:id", param="group_id")
ASSIGN_GROUP = Require("group:modify_assignments", "group:id", param="group_id")


class GroupPath(Common, frozen=True, kw_only=True):
    """Path of an operation on one group."""

    group_id: GroupName


async def require_group_exists(ctx: Context, name: str) -> None:
    """Raises 1710 (404) for an unknown group, 1722 for an invalid name."""
    await asyncio.to_thread(require_group, ctx.node.paths, name)
