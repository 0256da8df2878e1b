"""``/security/users/.../permissions``: what the roles of a user add up to, and where each permission comes from."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Listing
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome
from secmon.common.query import Fields
from secmon.operations.security.login import granted
from secmon.operations.security.objects import Number
from secmon.security.items import user_items
from secmon.security.rbac.authorization import Require
from secmon.security.rbac.explanation import Permission, explain
from secmon.security.rbac.model import Rule, User
from secmon.security.store.view import SecurityView

FIELDS = Fields(engine="list")
MESSAGES = Messages("All permissions were returned", "Some permissions were not returned", "No permission was returned")


class Origin(Struct, frozen=True):
    """A role or a policy. ``position``: from 0, among the roles of the login or the policies of the role."""

    id: int
    name: str
    position: int


class TrueRule(Struct, frozen=True):
    """A security rule that gives the role, since it holds for the context."""

    id: int
    name: str


class PermissionItem(Struct, frozen=True):
    """What counts for an action on a resource, and why: the policy says it, of that role, which those rules give."""

    action: str
    resource: str
    effect: str
    role: Origin
    policy: Origin
    rules: list[TrueRule]


class ReadPermissions(Listing, frozen=True, kw_only=True):
    """The user, and the context of the login."""

    user_id: Number
    context: Annotated[
        str | None,
        Meta(description="JSON object: an authorization context. The roles are those that a login with it is given."),
    ] = None


@operation(
    "GET", "/security/users/me/permissions", params=Listing, open_to_all=True, item=PermissionItem, fields=FIELDS,
    messages=MESSAGES,
)  # fmt: skip
async def read_my_permissions(ctx: Context, params: Listing) -> Outcome:
    """The caller's permissions in the order they count in, each with the role and the policy that it comes from."""
    view, roles = ctx.node.security.view(), ctx.call.identity.roles
    return Outcome(items=[_item(one, ()) for one in _explained(view, roles)])


@operation(
    "GET", "/security/users/{user_id}/permissions", params=ReadPermissions, place=Place.MASTER, item=PermissionItem,
    fields=FIELDS, messages=MESSAGES,
    require=(
        Require("security:read", "user:id", param="user_id"),
        *(Require("security:read", kind, mode="restrict") for kind in ("role:id", "policy:id", "rule:id")),
    ),
)  # fmt: skip
async def read_permissions(ctx: Context, params: ReadPermissions) -> Outcome:
    """A user's permissions in the order they count in, each with the role, policy and rules that it comes from.

    Roles, policies and rules that the caller may not read become failed items: what these roles and policies say is
    left out.
    """
    view, outcome = ctx.node.security.view(), Outcome()
    user = await asyncio.to_thread(_user, ctx, view, int(params.user_id))
    if user is None:
        outcome.fail(SecmonError(5001), int(params.user_id))
        return outcome
    context = {} if params.context is None else _context(params.context)
    try:
        login = await granted(view, user, context)
    except SecmonError as error:
        outcome.fail(error, user.id)
        return outcome
    hidden = _Hidden(ctx)
    for one in _explained(view, login.roles):
        origin = one.origin
        rules = [view.rules[number] for number in origin.role.rules if number in login.rules]
        shown = [rule for rule in rules if hidden.shows("rule:id", rule.id)]
        if hidden.shows("role:id", origin.role.id) and hidden.shows("policy:id", origin.policy.id):
            outcome.items.append(_item(one, shown))
    hidden.report(outcome)
    return outcome


class _Hidden:
    """Collects what explains a permission and may not be read by the caller."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._found: dict[str, set[int]] = {}

    def shows(self, kind: str, number: int) -> bool:
        """Whether the caller may read it; if not, it is reported."""
        if str(number) in self._ctx.grant(kind).scope:
            return True
        self._found.setdefault(kind, set()).add(number)
        return False

    def report(self, outcome: Outcome) -> None:
        """Name them as failed items."""
        for kind, numbers in self._found.items():
            outcome.fail(SecmonError(4000, f"Resource type: {kind}"), *sorted(numbers))


def _user(ctx: Context, view: SecurityView, number: int) -> User | None:
    with ctx.node.security.read() as tx:
        item = user_items(tx, [number]).get(number)
    return view.user(item["username"]) if item else None


def _context(text: str) -> dict[str, Any]:
    """Raises 4026 for what is no JSON object."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise SecmonError(4026) from None


def _explained(view: SecurityView, roles: Iterable[int]) -> Iterator[Permission]:
    """Roles that no longer exist are passed over."""
    return explain([view.roles[number] for number in roles if number in view.roles], view.policies)


def _item(one: Permission, rules: Iterable[Rule]) -> dict[str, Any]:
    role, role_position, policy, policy_position = one.origin
    return {
        "action": one.action,
        "resource": one.resource,
        "effect": policy.effect,
        "role": {"id": role.id, "name": role.name, "position": role_position},
        "policy": {"id": policy.id, "name": policy.name, "position": policy_position},
        "rules": [{"id": rule.id, "name": rule.name} for rule in rules],
    }
