"""``POST /security/user/authenticate/run_as``: login with an authorization context."""

import asyncio
from typing import Annotated, Any

from msgspec import Meta

from secmon.cluster.catalogue import operation
from secmon.cluster.executor import Context
from secmon.common.errors import SecmonError
from secmon.common.outcome import Plain, Raw, Result
from secmon.operations.security.login import Login, Token, signing_view
from secmon.security.authentication_error import INVALID_CREDENTIALS, AuthenticationError
from secmon.security.context_hash import context_hash
from secmon.security.rbac.context_rules import roles_for
from secmon.security.rbac.model import User
from secmon.security.store.view import SecurityView


class RunAs(Login, frozen=True, kw_only=True):
    """What a context login takes."""

    body: Annotated[
        dict[str, Any],
        Meta(description="The authorization context; usual members are `name` (string) and `auth` (object)."),
    ]


@operation(
    "POST", "/security/user/authenticate/run_as", params=RunAs, auth="basic", data=Token, raw_type="text/plain"
)  # fmt: skip
async def login_with_context(ctx: Context, params: RunAs) -> Result:
    """Log in with name, password and an authorization context, whose matching rules give the roles."""
    identity = ctx.call.identity
    view = await signing_view(ctx)
    user = view.user(identity.user)
    if user is None or user.id != identity.user_id:
        raise AuthenticationError(INVALID_CREDENTIALS)
    try:
        hashed = context_hash(params.body)
    except RecursionError:
        raise SecmonError(1018, "nested too deeply") from None
    roles = await _granted(view, user, params.body)
    # Dated by the revision that the credentials were checked at: what was revoked meanwhile ends this token too.
    token = ctx.node.tokens.issue(view, user, roles, context_hash=hashed, revision=identity.revision)
    if params.raw:
        return Raw(body=token.encode(), content_type="text/plain; charset=utf-8")
    return Plain(data={"token": token})


async def _granted(view: SecurityView, user: User, context: dict[str, Any]) -> tuple[int, ...]:
    """Roles of the rules that hold; the user's own for a context without members (conventions.md 7.1).

    Raises 6004 for any other context of a user whose run_as flag is off. A null member counts as absent.
    """
    if all(value is None for value in context.values()):
        return user.roles
    if not user.allow_run_as:
        raise SecmonError(6004)
    # In a thread: the context of a client may keep it busy for a second or two.
    return await asyncio.to_thread(roles_for, view.rules, view.roles, context, user)
