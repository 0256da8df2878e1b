"""The caller's own account: profile, permissions, logout; and the revocation of all tokens."""

import asyncio
from typing import Any

from msgspec import Struct

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Common, Pretty
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome, Plain
from secmon.security.key_rotation import replace_signing_key
from secmon.security.rbac.authorization import Require
from secmon.security.rbac.evaluate import EMPTY
from secmon.security.rbac.model import Role
from secmon.security.revocation import revoke_all, revoke_user
from secmon.security.store.transaction import WriteTransaction
from secmon.security.store.view import SecurityView


class OwnPolicy(Struct):
    """A policy of one of the caller's roles."""

    id: int
    name: str
    policy: dict[str, Any]


class OwnRule(Struct):
    """A security rule of one of the caller's roles."""

    id: int
    name: str
    rule: dict[str, Any]


class OwnRole(Struct):
    """A role that the token carries."""

    id: int
    name: str
    policies: list[OwnPolicy]
    rules: list[OwnRule]


class Me(Struct):
    """The caller."""

    id: int
    username: str
    allow_run_as: bool
    roles: list[OwnRole]


OWN_POLICIES = Messages(all="The current user's policies were returned")


# On any node: a node that has verified the token has the security state of that check.
@operation(
    "GET", "/security/users/me", params=Common, open_to_all=True, item=Me,
    messages=Messages(all="The current user was returned", none="The current user was not returned"),
)  # fmt: skip
async def read_me(ctx: Context, params: Common) -> Outcome:
    """The caller, with the roles that the token carries; those deleted since are left out."""
    identity, view = ctx.call.identity, ctx.node.security.view()
    user = await asyncio.to_thread(view.user, identity.user)
    outcome = Outcome()
    if user is None or user.id != identity.user_id:
        outcome.fail(SecmonError(5001), identity.user_id)
        return outcome
    roles = [_expanded(view, view.roles[role]) for role in identity.roles if role in view.roles]
    outcome.items.append(
        {"id": user.id, "username": user.username, "allow_run_as": user.allow_run_as, "roles": roles}
    )  # fmt: skip
    return outcome


@operation(
    "GET", "/security/users/me/policies", params=Pretty, open_to_all=True, exempt=True, data=dict[str, Any],
    messages=OWN_POLICIES,
)  # fmt: skip
async def read_my_policies(ctx: Context, params: Pretty) -> Plain:
    """The caller's permissions: for each action the resources and the effect on them, in the order they count in."""
    identity = ctx.call.identity
    permissions = EMPTY if identity.local else ctx.node.security.view().permissions(identity.roles)
    actions = {action: dict(resources) for action, resources in permissions.actions.items()}
    return Plain(data={**actions, "rbac_mode": identity.mode}, message=OWN_POLICIES.all)


@operation("DELETE", "/security/user/authenticate", params=Pretty, place=Place.MASTER, open_to_all=True)
async def logout(ctx: Context, params: Pretty) -> Plain:
    """Log out: every token of the caller is revoked."""
    identity = ctx.call.identity
    await ctx.change_security(lambda tx: revoke_user(tx, identity.user_id, ctx.node.clock))
    return Plain(message=f"User {identity.user} was logged out", notes=await ctx.unconfirmed_nodes())


@operation(
    "PUT", "/security/user/revoke", params=Pretty, place=Place.MASTER, require=(Require("security:revoke"),)
)  # fmt: skip
async def revoke_tokens(ctx: Context, params: Pretty) -> Plain:
    """Revoke every token of every user; from now on tokens are signed with a new key."""

    def revoke(tx: WriteTransaction) -> None:
        revoke_all(tx)
        replace_signing_key(tx, ctx.node.clock)

    await ctx.change_security(revoke)
    return Plain(message="Every token was revoked", notes=await ctx.unconfirmed_nodes())


def _expanded(view: SecurityView, role: Role) -> dict[str, Any]:
    policies = (view.policies[number] for number in role.policies)
    rules = (view.rules[number] for number in role.rules)
    return {
        "id": role.id,
        "name": role.name,
        "policies": [
            {
                "id": one.id,
                "name": one.name,
                "policy": {
                    "actions": list(one.actions),
                    "resources": list(one.resources),
                    "effect": one.effect,
                },
            }
            for one in policies
        ],
        "rules": [{"id": one.id, "name": one.name, "rule": one.rule} for one in rules],
    }
