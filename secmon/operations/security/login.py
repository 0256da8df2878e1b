"""``/security``: login and the security configuration.

Login runs on the node asked, from the replicated state; so it works while the master is away (within the lease).
"""

import asyncio
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import REVISION_POLL, REVISION_SECONDS, Context
from secmon.cluster.parameters import Common
from secmon.common.errors import SecmonError
from secmon.common.outcome import Plain, Raw, Result
from secmon.security.admin import reset_security_config, set_security_config
from secmon.security.authentication_error import INVALID_CREDENTIALS, AuthenticationError
from secmon.security.rbac.authorization import Require
from secmon.security.store.view import SecurityView


class Token(Struct):
    """A JSON Web Token."""

    token: str


class SecurityConfig(Struct):
    """Settings of logins and permissions, the same on every node."""

    auth_token_exp_timeout: int
    rbac_mode: Literal["white", "black"]


class Login(Struct, frozen=True, kw_only=True):
    """How to hand out the token."""

    raw: Annotated[bool, Meta(description="Answer with the bare token as plain text.")] = False


class NewSecurityConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings to change; at least one."""

    auth_token_exp_timeout: Annotated[int, Meta(ge=1, le=2**31 - 1)] | UnsetType = UNSET
    rbac_mode: Literal["white", "black"] | UnsetType = UNSET


class PutSecurityConfig(Common, frozen=True, kw_only=True):
    """What ``PUT /security/config`` takes."""

    body: NewSecurityConfig


async def signing_view(ctx: Context) -> SecurityView:
    """The security state, once this node has a key to sign with: a worker's is registered when it joins.

    After ``REVISION_SECONDS`` the state is handed out as it is.
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


@operation(
    "GET", "/security/config", params=Common, place=Place.MASTER, require=(Require("security:read_config"),),
    data=SecurityConfig,
)  # fmt: skip
async def read_config(ctx: Context, params: Common) -> Plain:
    """The security configuration."""
    settings = ctx.node.security.view().settings
    return Plain(data={"auth_token_exp_timeout": settings.auth_token_exp_timeout, "rbac_mode": settings.rbac_mode})


@operation(
    "PUT", "/security/config", params=PutSecurityConfig, place=Place.MASTER,
    require=(Require("security:update_config"),),
)  # fmt: skip
async def update_config(ctx: Context, params: PutSecurityConfig) -> Plain:
    """Change the security configuration; every token of every user is revoked."""
    timeout, mode = params.body.auth_token_exp_timeout, params.body.rbac_mode
    if timeout is UNSET and mode is UNSET:
        raise SecmonError(4021)
    await ctx.change_security(
        lambda tx: set_security_config(
            tx,
            auth_token_exp_timeout=None if isinstance(timeout, UnsetType) else timeout,
            rbac_mode=None if isinstance(mode, UnsetType) else mode,
        )
    )
    return Plain(message="The security configuration was changed; every token is revoked", notes=await ctx.lagging())


@operation(
    "DELETE", "/security/config", params=Common, place=Place.MASTER, require=(Require("security:update_config"),)
)
async def reset_config(ctx: Context, params: Common) -> Plain:
    """Restore the default security configuration; every token of every user is revoked."""
    await ctx.change_security(reset_security_config)
    return Plain(message="The default security configuration stands; every token is revoked", notes=await ctx.lagging())
