"""Changes of the token signing keys: rotation, registration of workers' keys, retirement (rbac.md 13)."""

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1

from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.security.revocation import EXPIRY_MARGIN_SECONDS
from secmon.security.signing_keys import SigningKey, new_signing_key
from secmon.security.store import schema
from secmon.security.store.transaction import WriteTransaction

MAX_KEYS_OF_A_NODE = 8
"""Keys of one worker in the store at a time: it needs two."""


def rotate_signing_key(tx: WriteTransaction, clock: Clock) -> SigningKey:
    """Replace the master's signing key. The old one verifies until the last token that it signed has expired."""
    key = new_signing_key(clock)
    _replace_current(tx, key)
    assert key.private_pem is not None
    tx.keep_private_key(key.kid, key.private_pem)
    return key


def register_signing_key(tx: WriteTransaction, node: str, kid: str, public_pem: str, clock: Clock) -> SigningKey:
    """Register a new signing key of the worker ``node``; tokens signed with its last one stay valid.

    Raises 6003 for anything but a new P-256 key, and for a worker that has changed its key too often recently.
    """
    key = SigningKey(kid, node, public_pem, int(clock.now().timestamp()), None)
    if key.public.curve.name != SECP256R1.name or tx.get(schema.signing_keys, kid) is not None:
        raise SecmonError(6003, "not a new P-256 key")
    if len(tx.select(schema.signing_keys, node=node)) >= MAX_KEYS_OF_A_NODE:
        raise SecmonError(6003, f"{MAX_KEYS_OF_A_NODE} keys of {node} still verify tokens")
    _replace_current(tx, key)
    return key


def retire_signing_keys(tx: WriteTransaction, clock: Clock, *, older_than_seconds: int) -> None:
    """Retire keys of workers that were not replaced in ``older_than_seconds``: their nodes no longer exist."""
    now = int(clock.now().timestamp())
    for row in tx.select(schema.signing_keys):
        if row["node"] and row["retired_at"] is None and row["created"] + older_than_seconds < now:
            tx.put(schema.signing_keys, row | {"retired_at": now})


def _replace_current(tx: WriteTransaction, key: SigningKey) -> None:
    """Retire the node's last key in favour of ``key``, and delete retired keys whose last token has expired."""
    now = int(key.created)
    lifetime = tx.settings().auth_token_exp_timeout + EXPIRY_MARGIN_SECONDS
    for row in tx.select(schema.signing_keys):
        if row["retired_at"] is None and row["node"] == key.node:
            tx.put(schema.signing_keys, row | {"retired_at": now})
        elif row["retired_at"] is not None and row["retired_at"] + lifetime < now:
            tx.delete(schema.signing_keys, row["kid"])
    tx.put(schema.signing_keys, key.row())


def replace_signing_key(tx: WriteTransaction, clock: Clock) -> SigningKey:
    """Delete all signing keys and make a new one: after ``revoke_all``, when no token is valid any more.

    Connected workers register new keys immediately.
    """
    for row in tx.select(schema.signing_keys):
        tx.delete(schema.signing_keys, row["kid"])
    return rotate_signing_key(tx, clock)
