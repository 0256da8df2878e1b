"""``/security/config``: settings of logins and permissions, the same on every node (rbac.md 14)."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import Common
from secmon.common.errors import SecmonError
from secmon.common.outcome import Plain
from secmon.security.rbac.authorization import Require
from secmon.security.settings import reset_security_config, set_security_config


class SecurityConfig(Struct):
    """Settings of logins and permissions, the same on every node."""

    auth_token_exp_timeout: int
    rbac_mode: Literal["white", "black"]


class NewSecurityConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings to change; at least one."""

    auth_token_exp_timeout: Annotated[int, Meta(ge=1, le=2**31 - 1)] | UnsetType = UNSET
    rbac_mode: Literal["white", "black"] | UnsetType = UNSET


class PutSecurityConfig(Common, frozen=True, kw_only=True):
    """Body of PUT /security/config."""

    body: NewSecurityConfig


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
    return Plain(
        message="The security configuration was changed; every token is revoked", notes=await ctx.unconfirmed_nodes()
    )


@operation(
    "DELETE", "/security/config", params=Common, place=Place.MASTER, require=(Require("security:update_config"),)
)
async def reset_config(ctx: Context, params: Common) -> Plain:
    """Restore the default security configuration; every token of every user is revoked."""
    await ctx.change_security(reset_security_config)
    return Plain(
        message="The default security configuration stands; every token is revoked", notes=await ctx.unconfirmed_nodes()
    )
