"""Links: roles of users, policies and security rules of roles."""

from collections.abc import Sequence

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Common
from secmon.common.clock import Clock
from secmon.common.outcome import Messages, Outcome
from secmon.operations.security.objects import Number, NumberOrAll, Position, link_each
from secmon.security import link_changes
from secmon.security.items import Item, RoleItem, UserItem, role_items, user_items
from secmon.security.ordered_links import ROLE_POLICIES, USER_ROLES, linked_members
from secmon.security.rbac.authorization import Require
from secmon.security.revocation import revoke_role, revoke_run_as, revoke_user
from secmon.security.store import schema
from secmon.security.store.transaction import WriteTransaction

LINKED = Messages("All were linked", "Some were not linked", "None was linked")
UNLINKED = Messages("All were unlinked", "Some were not unlinked", "None was unlinked")


class LinkRoles(Common, frozen=True, kw_only=True):
    """The user, and the roles to add in their order."""

    user_id: Number
    role_ids: list[Number]
    position: Position | None = None


class UnlinkRoles(Common, frozen=True, kw_only=True):
    """The user, and the roles to remove; ``all``: all that the caller may remove."""

    user_id: Number
    role_ids: list[NumberOrAll]


class LinkPolicies(Common, frozen=True, kw_only=True):
    """The role, and the policies to add in their order."""

    role_id: Number
    policy_ids: list[Number]
    position: Position | None = None


class UnlinkPolicies(Common, frozen=True, kw_only=True):
    """The role, and the policies to remove; ``all``: all that the caller may remove."""

    role_id: Number
    policy_ids: list[NumberOrAll]


class LinkRules(Common, frozen=True, kw_only=True):
    """The role, and the security rules to link."""

    role_id: Number
    rule_ids: list[Number]


class UnlinkRules(Common, frozen=True, kw_only=True):
    """The role, and the security rules to unlink; ``all`` as for policies."""

    role_id: Number
    rule_ids: list[NumberOrAll]


def _requirements(action: str, kind: str, owner: str, listed: str) -> tuple[Require, Require]:
    return (
        Require(action, f"{owner}:id", param=f"{owner}_id"),
        Require(action, kind, param=listed, mode="each"),
    )


def _no_members(tx: WriteTransaction) -> Sequence[int]:
    """The meaning of ``all`` where the list cannot have it."""
    return ()


def _user(tx: WriteTransaction, user: int, clock: Clock) -> Item:
    revoke_user(tx, user, clock)
    return user_items(tx, [user])[user]


def _role(tx: WriteTransaction, role: int, clock: Clock) -> Item:
    revoke_role(tx, role, clock)
    return role_items(tx, [role])[role]


def _role_of_rules(tx: WriteTransaction, role: int, clock: Clock) -> Item:
    revoke_run_as(tx, clock)
    return role_items(tx, [role])[role]


def _after(position: int | None, done: int) -> int | None:
    return None if position is None else position + done


@operation(
    "POST", "/security/users/{user_id}/roles", params=LinkRoles, place=Place.MASTER, item=UserItem, messages=LINKED,
    require=_requirements("security:update", "role:id", "user", "role_ids"),
)  # fmt: skip
async def give_roles(ctx: Context, params: LinkRoles) -> Outcome:
    """Give a user roles; the user's tokens are revoked."""
    user, position = int(params.user_id), params.position
    return await link_each(
        ctx,
        "role:id",
        existing=_no_members,
        link=lambda tx, role, done: link_changes.link_role(tx, user, role, _after(position, done)),
        owner=lambda tx: _user(tx, user, ctx.node.clock),
    )


@operation(
    "DELETE", "/security/users/{user_id}/roles", params=UnlinkRoles, place=Place.MASTER, item=UserItem,
    messages=UNLINKED, require=_requirements("security:delete", "role:id", "user", "role_ids"),
)  # fmt: skip
async def take_roles(ctx: Context, params: UnlinkRoles) -> Outcome:
    """Take roles from a user; the user's tokens are revoked."""
    user = int(params.user_id)

    def held(tx: WriteTransaction) -> Sequence[int]:
        link_changes.require_user(tx, user)
        return linked_members(tx, USER_ROLES, user)

    return await link_each(
        ctx,
        "role:id",
        existing=held,
        link=lambda tx, role, _: link_changes.unlink_role(tx, user, role),
        owner=lambda tx: _user(tx, user, ctx.node.clock),
    )


@operation(
    "POST", "/security/roles/{role_id}/policies", params=LinkPolicies, place=Place.MASTER, item=RoleItem,
    messages=LINKED, require=_requirements("security:update", "policy:id", "role", "policy_ids"),
)  # fmt: skip
async def give_policies(ctx: Context, params: LinkPolicies) -> Outcome:
    """Give a role policies; tokens that carry the role are revoked."""
    role, position = int(params.role_id), params.position
    return await link_each(
        ctx,
        "policy:id",
        existing=_no_members,
        link=lambda tx, policy, done: link_changes.link_policy(tx, role, policy, _after(position, done)),
        owner=lambda tx: _role(tx, role, ctx.node.clock),
    )


@operation(
    "DELETE", "/security/roles/{role_id}/policies", params=UnlinkPolicies, place=Place.MASTER, item=RoleItem,
    messages=UNLINKED, require=_requirements("security:delete", "policy:id", "role", "policy_ids"),
)  # fmt: skip
async def take_policies(ctx: Context, params: UnlinkPolicies) -> Outcome:
    """Take policies from a role; tokens that carry the role are revoked."""
    role = int(params.role_id)

    def held(tx: WriteTransaction) -> Sequence[int]:
        link_changes.require_role(tx, role)
        return linked_members(tx, ROLE_POLICIES, role)

    return await link_each(
        ctx,
        "policy:id",
        existing=held,
        link=lambda tx, policy, _: link_changes.unlink_policy(tx, role, policy),
        owner=lambda tx: _role(tx, role, ctx.node.clock),
    )


@operation(
    "POST", "/security/roles/{role_id}/rules", params=LinkRules, place=Place.MASTER, item=RoleItem, messages=LINKED,
    require=_requirements("security:update", "rule:id", "role", "rule_ids"),
)  # fmt: skip
async def give_rules(ctx: Context, params: LinkRules) -> Outcome:
    """Let security rules give a role; tokens of all run_as logins are revoked."""
    role = int(params.role_id)
    return await link_each(
        ctx,
        "rule:id",
        existing=_no_members,
        link=lambda tx, rule, _: link_changes.link_rule(tx, role, rule),
        owner=lambda tx: _role_of_rules(tx, role, ctx.node.clock),
    )


@operation(
    "DELETE", "/security/roles/{role_id}/rules", params=UnlinkRules, place=Place.MASTER, item=RoleItem,
    messages=UNLINKED, require=_requirements("security:delete", "rule:id", "role", "rule_ids"),
)  # fmt: skip
async def take_rules(ctx: Context, params: UnlinkRules) -> Outcome:
    """Let security rules no longer give a role; tokens of all run_as logins are revoked."""
    role = int(params.role_id)

    def held(tx: WriteTransaction) -> Sequence[int]:
        link_changes.require_role(tx, role)
        return [int(row["rule_id"]) for row in tx.select(schema.role_rules, role_id=role)]

    return await link_each(
        ctx,
        "rule:id",
        existing=held,
        link=lambda tx, rule, _: link_changes.unlink_rule(tx, role, rule),
        owner=lambda tx: _role_of_rules(tx, role, ctx.node.clock),
    )
