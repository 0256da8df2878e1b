"""``/security/rules``: the rules that give roles to an authorization context."""

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
from secmon.security.items import RuleItem, rule_items
from secmon.security.rbac.authorization import Require
from secmon.security.rule_changes import create_rule, delete_rule, update_rule

Body = Annotated[dict[str, Any], Meta(description="One operator (FIND, MATCH, AND, ...) and what it is applied to.")]


def _check_numbers(rule: Mapping[str, Any]) -> None:
    """Raises ``ValueError`` for integers beyond 64 bits, which cannot be sent to a peer."""
    try:
        msgspec.msgpack.encode(rule)
    except OverflowError:
        raise ValueError("a number of the rule is too large") from None


class ListRules(Listing, frozen=True, kw_only=True):
    """Query parameters of GET /security/rules."""

    rule_ids: list[Number] | None = None


class NewRule(Struct, frozen=True, forbid_unknown_fields=True):
    """Name and expression of the security rule to make."""

    name: ObjectName
    rule: Body

    def __post_init__(self) -> None:
        _check_numbers(self.rule)


class PostRule(Common, frozen=True, kw_only=True):
    """Body of POST /security/rules."""

    body: NewRule


class ChangedRule(Struct, frozen=True, forbid_unknown_fields=True):
    """What to change; at least one."""

    name: ObjectName | UnsetType = UNSET
    rule: Body | UnsetType = UNSET

    def __post_init__(self) -> None:
        if not isinstance(self.rule, UnsetType):
            _check_numbers(self.rule)


class PutRule(Common, frozen=True, kw_only=True):
    """Path and body of PUT /security/rules/{rule_id}."""

    rule_id: Number
    body: ChangedRule


class DeleteRules(Common, frozen=True, kw_only=True):
    """Query parameters of DELETE /security/rules; ``all``: all that the caller may delete."""

    rule_ids: list[NumberOrAll]


@operation(
    "GET", "/security/rules", params=ListRules, place=Place.MASTER, item=RuleItem, fields=NAMED, default_sort=BY_ID,
    require=(Require("security:read", "rule:id", param="rule_ids", mode="each"),),
    messages=Messages("All rules were returned", "Some rules were not returned", "No rule was returned"),
)  # fmt: skip
async def read_rules(ctx: Context, params: ListRules) -> Outcome:
    """List the security rules, with the roles they give."""
    return await list_items(ctx, "rule:id", 4022, rule_items)


@operation(
    "POST", "/security/rules", params=PostRule, place=Place.MASTER, item=RuleItem,
    require=(Require("security:create"),),
    messages=Messages(all="The rule was created", none="The rule was not created"),
)  # fmt: skip
async def make_rule(ctx: Context, params: PostRule) -> Outcome:
    """Create a security rule that gives no role."""
    body = params.body
    return await change_one(ctx, lambda tx: create_rule(tx, body.name, body.rule, ctx.node.clock))


@operation(
    "PUT", "/security/rules/{rule_id}", params=PutRule, place=Place.MASTER, item=RuleItem,
    require=(Require("security:update", "rule:id", param="rule_id"),),
    messages=Messages(all="The rule was updated", none="The rule was not updated"),
)  # fmt: skip
async def change_rule(ctx: Context, params: PutRule) -> Outcome:
    """Change name or expression of a security rule; tokens it may have granted are revoked."""
    name = None if isinstance(params.body.name, UnsetType) else params.body.name
    rule = None if isinstance(params.body.rule, UnsetType) else params.body.rule
    if name is None and rule is None:
        raise SecmonError(4001)
    return await change_one(ctx, lambda tx: update_rule(tx, int(params.rule_id), name, rule, ctx.node.clock))


@operation(
    "DELETE", "/security/rules", params=DeleteRules, place=Place.MASTER, item=RuleItem,
    require=(Require("security:delete", "rule:id", param="rule_ids", mode="each"),),
    messages=Messages("The rules were deleted", "Some rules were not deleted", "No rule was deleted"),
)  # fmt: skip
async def remove_rules(ctx: Context, params: DeleteRules) -> Outcome:
    """Delete security rules; tokens they may have granted are revoked."""
    return await delete_each(ctx, "rule:id", rule_items, lambda tx, rule: delete_rule(tx, rule, ctx.node.clock))
