"""Changes of the security configuration; each revokes all tokens (rbac.md 14)."""

import msgspec

from secmon.common.errors import SecmonError
from secmon.common.identity import Mode
from secmon.security.rbac.model import Settings
from secmon.security.revocation import revoke_all
from secmon.security.store import schema
from secmon.security.store.transaction import WriteTransaction


def set_security_config(
    tx: WriteTransaction, *, auth_token_exp_timeout: int | None = None, rbac_mode: Mode | None = None
) -> Settings:
    """Merge the members given into the current configuration and revoke every token, changed or not (rbac.md 14).

    Raises 4021 when no member is given, ``ValueError`` for a timeout below one second.
    """
    if auth_token_exp_timeout is not None and auth_token_exp_timeout < 1:
        raise ValueError("auth_token_exp_timeout must be at least 1")
    if auth_token_exp_timeout is None and rbac_mode is None:
        raise SecmonError(4021)
    current = tx.settings()
    merged = Settings(
        auth_token_exp_timeout=auth_token_exp_timeout or current.auth_token_exp_timeout,
        rbac_mode=rbac_mode or current.rbac_mode,
    )
    return _replace_settings(tx, merged)


def reset_security_config(tx: WriteTransaction) -> Settings:
    """Restore 900 seconds and white mode; revokes every token."""
    return _replace_settings(tx, Settings())


def _replace_settings(tx: WriteTransaction, settings: Settings) -> Settings:
    put_settings(tx, settings)
    revoke_all(tx)
    return settings


def put_settings(tx: WriteTransaction, settings: Settings) -> None:
    for name, value in msgspec.structs.asdict(settings).items():
        tx.put(schema.settings, {"name": name, "value": msgspec.json.encode(value).decode()})
