"""``/security/user/authenticate``: login with a password, and with an authorization context (conventions.md 7.1).

Login runs on the node asked, from the replicated state; so it works while the master is away (within the lease).
"""

import asyncio
from typing import Annotated, Any

from msgspec import Meta, Struct

from secmon.cluster.catalogue import operation
from secmon.cluster.executor import REVISION_POLL, REVISION_SECONDS, Context
from secmon.common.errors import SecmonError
from secmon.common.outcome import Plain, Raw, Result
from secmon.security.authentication_error import INVALID_CREDENTIALS, AuthenticationError
from secmon.security.credentials import context_hash
from secmon.security.rbac.context_rules import Granted, roles_for
from secmon.security.rbac.model import User
from secmon.security.store.view import SecurityView


class Token(Struct):
    """A JSON Web Token."""

    token: str


class Login(Struct, frozen=True, kw_only=True):
    """Query parameters of a login."""

    raw: Annotated[bool, Meta(description="Answer with the bare token as plain text.")] = False


async def signing_view(ctx: Context) -> SecurityView:
    """The security state with a signing key of this node; that of a worker is registered when it joins.

    After ``REVISION_SECONDS`` the state is returned without one.
    """
    node = ctx.node
    end = node.clock.monotonic() + REVISION_SECONDS
    view = node.security.view()
    while view.signing_key is None and not view.authoritative and node.clock.monotonic() < end:
        await asyncio.sleep(REVISION_POLL)
        view = node.security.view()
    return view


async def _login(ctx: Context, params: Login) -> Result:
    """A token for the user whose name and password were just checked."""
    identity = ctx.call.identity
    view = await signing_view(ctx)
    user = view.user(identity.user)
    if user is None or user.id != identity.user_id:
        raise AuthenticationError(INVALID_CREDENTIALS)
    token = ctx.node.tokens.issue(view, user, identity.roles, revision=identity.revision)
    if params.raw:
        return Raw(body=token.encode(), content_type="text/plain; charset=utf-8")
    return Plain(data={"token": token})


@operation("POST", "/security/user/authenticate", params=Login, auth="basic", data=Token, raw_type="text/plain")
async def login(ctx: Context, params: Login) -> Result:
    """Log in with name and password; the answer carries a token."""
    return await _login(ctx, params)


@operation(
    "GET", "/security/user/authenticate", params=Login, auth="basic", data=Token, raw_type="text/plain",
    deprecated="4.4",
)  # fmt: skip
async def login_by_get(ctx: Context, params: Login) -> Result:
    """Log in with name and password (use POST)."""
    return await _login(ctx, params)


class RunAs(Login, frozen=True, kw_only=True):
    """Query parameters and body of a context login."""

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
    roles, _ = await granted(view, user, params.body)
    # Issued at the revision of the credential check, so that revocations since then include this token.
    token = ctx.node.tokens.issue(view, user, roles, context_hash=hashed, revision=identity.revision)
    if params.raw:
        return Raw(body=token.encode(), content_type="text/plain; charset=utf-8")
    return Plain(data={"token": token})


async def granted(view: SecurityView, user: User, context: dict[str, Any]) -> Granted:
    """Roles of the rules that hold; the user's own for a context without members (conventions.md 7.1).

    Raises 6004 for any other context of a user whose run_as flag is off. A null member counts as absent.
    """
    if all(value is None for value in context.values()):
        return Granted(user.roles)
    if not user.allow_run_as:
        raise SecmonError(6004)
    # In a thread: the context of a client may keep it busy for a second or two.
    return await asyncio.to_thread(roles_for, view.rules, view.roles, context, user)
