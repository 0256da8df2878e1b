"""``/security/users``: the users of the API."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Common, Listing, text_format
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome
from secmon.common.query import Fields
from secmon.operations.security.objects import BY_ID, Number, NumberOrAll, change_one, delete_each, list_items
from secmon.security.items import UserItem, is_reserved, user_items
from secmon.security.passwords import check_password, hash_password
from secmon.security.rbac.authorization import Require
from secmon.security.user_changes import create_user, delete_user, replace_password, set_run_as

FIELDS = Fields(engine="list", sort=("id", "username"), required=("id",))

Username = Annotated[str, text_format("names", r"[A-Za-z0-9_\-.%]+"), Meta(min_length=4, max_length=64)]
# The type does not check the rules: they have error codes of their own (5007, 5009).
Password = Annotated[
    str,
    Meta(
        description="8 to 64 characters: a lower-case and an upper-case letter, a digit and a symbol at least.",
        extra_json_schema={"format": "password"},
    ),
]


class ListUsers(Listing, frozen=True, kw_only=True):
    """Query parameters of GET /security/users."""

    user_ids: list[Number] | None = None


class NewUser(Struct, frozen=True, forbid_unknown_fields=True):
    """Name and password of the user to make."""

    username: Username
    password: Password


class PostUser(Common, frozen=True, kw_only=True):
    """Body of POST /security/users."""

    body: NewUser


class ChangedUser(Struct, frozen=True, forbid_unknown_fields=True):
    """What to change; the name stays."""

    password: Password | UnsetType = UNSET


class PutUser(Common, frozen=True, kw_only=True):
    """Path and body of PUT /security/users/{user_id}."""

    user_id: Number
    body: ChangedUser


class PutRunAs(Common, frozen=True, kw_only=True):
    """The user, and the new flag."""

    user_id: Number
    allow_run_as: Annotated[bool, Meta(description="Whether logins with an authorization context are allowed.")] = False


class DeleteUsers(Common, frozen=True, kw_only=True):
    """Query parameters of DELETE /security/users; ``all``: all that the caller may delete."""

    user_ids: list[NumberOrAll]


@operation(
    "GET", "/security/users", params=ListUsers, place=Place.MASTER, item=UserItem, fields=FIELDS, default_sort=BY_ID,
    require=(Require("security:read", "user:id", param="user_ids", mode="each"),),
    messages=Messages("All users were returned", "Some users were not returned", "No user was returned"),
)  # fmt: skip
async def read_users(ctx: Context, params: ListUsers) -> Outcome:
    """List the users of the API."""
    return await list_items(ctx, "user:id", 5001, user_items)


@operation(
    "POST", "/security/users", params=PostUser, place=Place.MASTER, item=UserItem,
    require=(Require("security:create_user"),),
    messages=Messages(all="The user was created", none="The user was not created"),
)  # fmt: skip
async def make_user(ctx: Context, params: PostUser) -> Outcome:
    """Create a user without roles."""
    check_password(params.body.password)
    hashed = await ctx.node.hashing.run(hash_password, params.body.password)
    return await change_one(ctx, lambda tx: create_user(tx, params.body.username, hashed, ctx.node.clock))


@operation(
    "PUT", "/security/users/{user_id}", params=PutUser, place=Place.MASTER, item=UserItem,
    require=(Require("security:update", "user:id", param="user_id"),),
    messages=Messages(all="The user was updated", none="The user was not updated"),
)  # fmt: skip
async def update_user(ctx: Context, params: PutUser) -> Outcome:
    """Change the password of a user; the user's tokens are revoked."""
    password, user = params.body.password, int(params.user_id)
    if isinstance(password, UnsetType):
        raise SecmonError(4001)
    check_password(password)
    caller = ctx.call.identity
    # Calls from the host itself have the id 0 and may change every user.
    if is_reserved(user) and not (is_reserved(caller.user_id) or caller.user_id == 0):
        raise SecmonError(5011, ids=(user,))
    hashed = await ctx.node.hashing.run(hash_password, password)
    return await change_one(ctx, lambda tx: replace_password(tx, user, hashed, ctx.node.clock))


@operation(
    "PUT", "/security/users/{user_id}/run_as", params=PutRunAs, place=Place.MASTER, item=UserItem,
    require=(Require("security:edit_run_as"),),
    messages=Messages(all="The run_as flag was changed", none="The run_as flag was not changed"),
)  # fmt: skip
async def update_run_as(ctx: Context, params: PutRunAs) -> Outcome:
    """Allow or forbid a user to log in with an authorization context; the user's tokens are revoked."""
    return await change_one(ctx, lambda tx: set_run_as(tx, int(params.user_id), params.allow_run_as, ctx.node.clock))


@operation(
    "DELETE", "/security/users", params=DeleteUsers, place=Place.MASTER, item=UserItem,
    require=(Require("security:delete", "user:id", param="user_ids", mode="each"),),
    messages=Messages("The users were deleted", "Some users were not deleted", "No user was deleted"),
)  # fmt: skip
async def remove_users(ctx: Context, params: DeleteUsers) -> Outcome:
    """Delete users; their tokens are revoked."""
    caller, clock = ctx.call.identity.user_id, ctx.node.clock
    return await delete_each(
        ctx, "user:id", user_items, lambda tx, user: delete_user(tx, user, caller=caller, clock=clock)
    )
