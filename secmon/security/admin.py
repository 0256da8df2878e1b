"""Changes of the security state that revoke tokens: passwords, configuration, signing keys; and the first contents."""

from collections.abc import Mapping
from contextlib import AbstractContextManager

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1

from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.common.identity import Mode
from secmon.security.passwords import check_password, hash_password
from secmon.security.rbac.defaults import Defaults, load_defaults
from secmon.security.rbac.model import Settings
from secmon.security.revocation import EXPIRY_MARGIN_SECONDS, revoke_all, revoke_user
from secmon.security.signing_keys import SigningKey, new_signing_key
from secmon.security.store import schema
from secmon.security.store.replication import Row
from secmon.security.store.security_store import SecurityStore
from secmon.security.store.transaction import WriteTransaction

MAX_KEYS_OF_A_NODE = 8
"""Keys of one worker that are remembered at a time: it needs two."""


def set_password(tx: WriteTransaction, user_id: int, password: str, clock: Clock) -> None:
    """Give the user a new password and kill the user's tokens. Hashing blocks for about 20 ms.

    Raises 5009 or 5007 for a password against the rules, 5001 for an unknown user.
    """
    check_password(password)
    row = tx.get(schema.users, user_id)
    if row is None:
        raise SecmonError(5001, ids=(user_id,))
    tx.put(schema.users, row | {"password": hash_password(password)})
    revoke_user(tx, user_id, clock)


def set_security_config(
    tx: WriteTransaction, *, auth_token_exp_timeout: int | None = None, rbac_mode: Mode | None = None
) -> Settings:
    """Merge the members given into the current configuration and kill every token, changed or not (rbac.md 14).

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
    """Back to 900 seconds and white mode; kills every token."""
    return _replace_settings(tx, Settings())


def _replace_settings(tx: WriteTransaction, settings: Settings) -> Settings:
    _put_settings(tx, settings)
    revoke_all(tx)
    return settings


def _put_settings(tx: WriteTransaction, settings: Settings) -> None:
    for name, value in msgspec.structs.asdict(settings).items():
        tx.put(schema.settings, {"name": name, "value": msgspec.json.encode(value).decode()})


def rotate_signing_key(tx: WriteTransaction, clock: Clock) -> SigningKey:
    """The master signs with a new key from now on. The old one verifies until the last token it signed has expired."""
    key = new_signing_key(clock)
    _succeed(tx, key)
    assert key.private_pem is not None
    tx.keep_private_key(key.kid, key.private_pem)
    return key


def register_signing_key(tx: WriteTransaction, node: str, kid: str, public_pem: str, clock: Clock) -> SigningKey:
    """Tokens of the worker ``node`` are signed with this key from now on; those signed with its last one live on.

    Raises 6003 for what is no P-256 key, and for a worker that has changed its key too often of late.
    """
    key = SigningKey(kid, node, public_pem, int(clock.now().timestamp()), None)
    if key.public.curve.name != SECP256R1.name or tx.get(schema.signing_keys, kid) is not None:
        raise SecmonError(6003, "not a new P-256 key")
    if len(tx.select(schema.signing_keys, node=node)) >= MAX_KEYS_OF_A_NODE:
        raise SecmonError(6003, f"{MAX_KEYS_OF_A_NODE} keys of {node} still verify tokens")
    _succeed(tx, key)
    return key


def retire_signing_keys(tx: WriteTransaction, clock: Clock, *, older_than_seconds: int) -> None:
    """Keys of workers that should long have been followed by others: their nodes are gone."""
    now = int(clock.now().timestamp())
    for row in tx.select(schema.signing_keys):
        if row["node"] and row["retired_at"] is None and row["created"] + older_than_seconds < now:
            tx.put(schema.signing_keys, row | {"retired_at": now})


def _succeed(tx: WriteTransaction, key: SigningKey) -> None:
    """``key`` takes the place of its node's last one; keys of whoever whose last token has expired are dropped."""
    now = int(key.created)
    lifetime = tx.settings().auth_token_exp_timeout + EXPIRY_MARGIN_SECONDS
    for row in tx.select(schema.signing_keys):
        if row["retired_at"] is None and row["node"] == key.node:
            tx.put(schema.signing_keys, row | {"retired_at": now})
        elif row["retired_at"] is not None and row["retired_at"] + lifetime < now:
            tx.delete(schema.signing_keys, row["kid"])
    tx.put(schema.signing_keys, key.row())


def replace_signing_key(tx: WriteTransaction, clock: Clock) -> SigningKey:
    """Sign with a new key and forget all others: after ``revoke_all``, when no token is worth verifying.

    Workers that are connected register new keys at once.
    """
    for row in tx.select(schema.signing_keys):
        tx.delete(schema.signing_keys, row["kid"])
    return rotate_signing_key(tx, clock)


def promote(tx: WriteTransaction, clock: Clock) -> None:
    """Make a copy of another master's store the origin, in place of a master that is lost.

    Every token dies, with all the keys that signed them: the copy may lack the master's last revocations.
    """
    tx.take_over()
    revoke_all(tx)
    replace_signing_key(tx, clock)


def initialise(
    store: SecurityStore,
    *,
    admin_password: str,
    dashboard_password: str,
    clock: Clock,
    transaction: AbstractContextManager[WriteTransaction] | None = None,
) -> None:
    """Fill an empty store with the default contents, a signing key and the two default users.

    ``transaction`` is one of the store, where the change shall be written down; otherwise it is not.
    Raises ``ValueError`` when the store is not empty, 5009 or 5007 for a password against the rules.
    """
    passwords = {1: admin_password, 2: dashboard_password}
    for password in passwords.values():
        check_password(password)
    hashes = {user: hash_password(password) for user, password in passwords.items()}
    with transaction or store.write() as tx:
        if tx.revision != 1:
            raise ValueError("the security store is not empty")
        _put_settings(tx, Settings())
        rotate_signing_key(tx, clock)
        _put_defaults(tx, load_defaults(), hashes, int(clock.now().timestamp()))


def _put_defaults(tx: WriteTransaction, defaults: Defaults, hashes: Mapping[int, str], now: int) -> None:
    """All default rows, with exactly their ids (rbac.md 4). Custom ids start after the reserved ones."""
    for policy in defaults.policies:
        body = msgspec.json.encode(policy.policy).decode()
        tx.put(schema.policies, {"id": policy.id, "name": policy.name, "policy": body, "created_at": now})
    for rule in defaults.rules:
        text = msgspec.json.encode(rule.rule).decode()
        tx.put(schema.rules, {"id": rule.id, "name": rule.name, "rule": text, "created_at": now})
    for role in defaults.roles:
        tx.put(schema.roles, {"id": role.id, "name": role.name, "created_at": now})
        for position, policy_id in enumerate(role.policies):
            tx.put(schema.role_policies, {"role_id": role.id, "policy_id": policy_id, "position": position})
        for rule_id in role.rules:
            tx.put(schema.role_rules, {"role_id": role.id, "rule_id": rule_id})
    for user in defaults.users:
        row: Row = {"id": user.id, "username": user.username, "allow_run_as": user.allow_run_as}
        tx.put(schema.users, row | {"password": hashes[user.id], "created_at": now})
        for position, role_id in enumerate(user.roles):
            tx.put(schema.user_roles, {"user_id": user.id, "role_id": role_id, "position": position})
    for table in (schema.users, schema.roles, schema.policies, schema.rules):
        tx.put(schema.sequences, {"name": str(table.name), "next_id": schema.FIRST_CUSTOM_ID})
