"""``/security/roles``: the roles of users."""

from msgspec import UNSET, Struct, UnsetType

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Common, Listing
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome
from secmon.operations.security.objects import (
    BY_ID,
    NAMED,
    Number,
    NumberOrAll,
    ObjectName,
    change_one,
    delete_each,
    list_items,
)
from secmon.security.items import RoleItem, role_items
from secmon.security.rbac.authorization import Require
from secmon.security.role_changes import create_role, delete_role, rename_role


class ListRoles(Listing, frozen=True, kw_only=True):
    """Query parameters of GET /security/roles."""

    role_ids: list[Number] | None = None


class NewRole(Struct, frozen=True, forbid_unknown_fields=True):
    """The name of the role to make."""

    name: ObjectName


class PostRole(Common, frozen=True, kw_only=True):
    """Body of POST /security/roles."""

    body: NewRole


class ChangedRole(Struct, frozen=True, forbid_unknown_fields=True):
    """What to change."""

    name: ObjectName | UnsetType = UNSET


class PutRole(Common, frozen=True, kw_only=True):
    """Path and body of PUT /security/roles/{role_id}."""

    role_id: Number
    body: ChangedRole


class DeleteRoles(Common, frozen=True, kw_only=True):
    """Query parameters of DELETE /security/roles; ``all``: all that the caller may delete."""

    role_ids: list[NumberOrAll]


@operation(
    "GET", "/security/roles", params=ListRoles, place=Place.MASTER, item=RoleItem, fields=NAMED, default_sort=BY_ID,
    require=(Require("security:read", "role:id", param="role_ids", mode="each"),),
    messages=Messages("All roles were returned", "Some roles were not returned", "No role was returned"),
)  # fmt: skip
async def read_roles(ctx: Context, params: ListRoles) -> Outcome:
    """List the roles, with their policies, users and security rules."""
    return await list_items(ctx, "role:id", 4002, role_items)


@operation(
    "POST", "/security/roles", params=PostRole, place=Place.MASTER, item=RoleItem,
    require=(Require("security:create"),),
    messages=Messages(all="The role was created", none="The role was not created"),
)  # fmt: skip
async def make_role(ctx: Context, params: PostRole) -> Outcome:
    """Create a role that holds nothing."""
    return await change_one(ctx, lambda tx: create_role(tx, params.body.name, ctx.node.clock))


@operation(
    "PUT", "/security/roles/{role_id}", params=PutRole, place=Place.MASTER, item=RoleItem,
    require=(Require("security:update", "role:id", param="role_id"),),
    messages=Messages(all="The role was updated", none="The role was not updated"),
)  # fmt: skip
async def update_role(ctx: Context, params: PutRole) -> Outcome:
    """Rename a role; tokens that carry it are revoked."""
    name, role = params.body.name, int(params.role_id)
    if isinstance(name, UnsetType):
        raise SecmonError(4001)
    return await change_one(ctx, lambda tx: rename_role(tx, role, name, ctx.node.clock))


@operation(
    "DELETE", "/security/roles", params=DeleteRoles, place=Place.MASTER, item=RoleItem,
    require=(Require("security:delete", "role:id", param="role_ids", mode="each"),),
    messages=Messages("The roles were deleted", "Some roles were not deleted", "No role was deleted"),
)  # fmt: skip
async def remove_roles(ctx: Context, params: DeleteRoles) -> Outcome:
    """Delete roles; tokens that carry them are revoked."""
    return await delete_each(ctx, "role:id", role_items, lambda tx, role: delete_role(tx, role, ctx.node.clock))
