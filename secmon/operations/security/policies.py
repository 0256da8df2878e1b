"""``/security/policies``: actions on resources that are allowed or denied."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

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
from secmon.security.items import PolicyItem, policy_items
from secmon.security.policy_changes import create_policy, delete_policy, update_policy
from secmon.security.rbac.authorization import Require

_TEXTS = {"type": "array", "items": {"type": "string"}}

# A mapping and not a struct: an additional member fails the item with 4006, whereas a missing one or a wrong type
# refuses the request (rbac.md 3 and 6).
Body = Annotated[
    dict[str, Any],
    Meta(
        description="Actions on resources, and whether they are allowed or denied.",
        extra_json_schema={
            "properties": {
                "actions": _TEXTS,
                "resources": _TEXTS,
                "effect": {"type": "string", "enum": ["allow", "deny"]},
            },
            "required": ["actions", "resources", "effect"],
        },
    ),
]


class _Shape(Struct, frozen=True):
    """The required members of a body."""

    actions: list[str]
    resources: list[str]
    effect: str


class _Holder(Struct, frozen=True):
    policy: _Shape


def _check_shape(policy: Mapping[str, Any]) -> None:
    """Raises ``msgspec.ValidationError``, which decoding reports with its path."""
    msgspec.convert({"policy": policy}, _Holder)


class ListPolicies(Listing, frozen=True, kw_only=True):
    """Query parameters of GET /security/policies."""

    policy_ids: list[Number] | None = None


class NewPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """Name and body of the policy to make."""

    name: ObjectName
    policy: Body

    def __post_init__(self) -> None:
        _check_shape(self.policy)


class PostPolicy(Common, frozen=True, kw_only=True):
    """Body of POST /security/policies."""

    body: NewPolicy


class ChangedPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """What to change; at least one."""

    name: ObjectName | UnsetType = UNSET
    policy: Body | UnsetType = UNSET

    def __post_init__(self) -> None:
        if not isinstance(self.policy, UnsetType):
            _check_shape(self.policy)


class PutPolicy(Common, frozen=True, kw_only=True):
    """Path and body of PUT /security/policies/{policy_id}."""

    policy_id: Number
    body: ChangedPolicy


class DeletePolicies(Common, frozen=True, kw_only=True):
    """Query parameters of DELETE /security/policies; ``all``: all that the caller may delete."""

    policy_ids: list[NumberOrAll]


@operation(
    "GET", "/security/policies", params=ListPolicies, place=Place.MASTER, item=PolicyItem, fields=NAMED,
    default_sort=BY_ID, require=(Require("security:read", "policy:id", param="policy_ids", mode="each"),),
    messages=Messages("All policies were returned", "Some policies were not returned", "No policy was returned"),
)  # fmt: skip
async def read_policies(ctx: Context, params: ListPolicies) -> Outcome:
    """List the policies, with the roles that hold them."""
    return await list_items(ctx, "policy:id", 4007, policy_items)


@operation(
    "POST", "/security/policies", params=PostPolicy, place=Place.MASTER, item=PolicyItem,
    require=(Require("security:create"),),
    messages=Messages(all="The policy was created", none="The policy was not created"),
)  # fmt: skip
async def make_policy(ctx: Context, params: PostPolicy) -> Outcome:
    """Create a policy that no role holds."""
    body = params.body
    return await change_one(ctx, lambda tx: create_policy(tx, body.name, body.policy, ctx.node.clock))


@operation(
    "PUT", "/security/policies/{policy_id}", params=PutPolicy, place=Place.MASTER, item=PolicyItem,
    require=(Require("security:update", "policy:id", param="policy_id"),),
    messages=Messages(all="The policy was updated", none="The policy was not updated"),
)  # fmt: skip
async def change_policy(ctx: Context, params: PutPolicy) -> Outcome:
    """Change name or body of a policy; tokens of roles that hold it are revoked."""
    name = None if isinstance(params.body.name, UnsetType) else params.body.name
    policy = None if isinstance(params.body.policy, UnsetType) else params.body.policy
    if name is None and policy is None:
        raise SecmonError(4001)
    return await change_one(ctx, lambda tx: update_policy(tx, int(params.policy_id), name, policy, ctx.node.clock))


@operation(
    "DELETE", "/security/policies", params=DeletePolicies, place=Place.MASTER, item=PolicyItem,
    require=(Require("security:delete", "policy:id", param="policy_ids", mode="each"),),
    messages=Messages("The policies were deleted", "Some policies were not deleted", "No policy was deleted"),
)  # fmt: skip
async def remove_policies(ctx: Context, params: DeletePolicies) -> Outcome:
    """Delete policies; tokens of roles that held them are revoked."""
    return await delete_each(ctx, "policy:id", policy_items, lambda tx, one: delete_policy(tx, one, ctx.node.clock))
