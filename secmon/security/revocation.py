"""Revocation: every token issued before a security revision is invalid (rbac.md 13.3).

A token carries the revision it was issued at, so no clock takes part: a token issued after the answer of a revocation
is valid even in the same second, one issued before is not. Rows are dropped once every token they could concern has
expired.
"""

from secmon.common.clock import Clock
from secmon.security.store import schema
from secmon.security.store.transaction import WriteTransaction

EXPIRY_MARGIN_SECONDS = 300
"""How much longer than a token a revocation is kept, against clocks that differ between nodes."""

_MAX_SECONDS = 2**62


def revoke_user(tx: WriteTransaction, user_id: int, clock: Clock) -> None:
    """Revoke the user's tokens: logout, password, flag, roles, deletion."""
    _revoke(tx, "user", str(user_id), clock)


def revoke_role(tx: WriteTransaction, role_id: int, clock: Clock) -> None:
    """Revoke the tokens that carry the role: its name, policies or their bodies changed."""
    _revoke(tx, "role", str(role_id), clock)


def revoke_run_as(tx: WriteTransaction, clock: Clock) -> None:
    """Revoke the tokens of all run_as logins: rules or their links changed."""
    _revoke(tx, "run_as", "", clock)


def revoke_all(tx: WriteTransaction) -> None:
    """Revoke every token. Replaces all other revocations and never expires."""
    for row in tx.select(schema.revocations):
        tx.delete(schema.revocations, row["scope"], row["subject"])
    tx.put(schema.revocations, {"scope": "all", "subject": "", "revision": tx.revision, "expires": None})


def _revoke(tx: WriteTransaction, scope: str, subject: str, clock: Clock) -> None:
    now = int(clock.now().timestamp())
    _drop_expired(tx, now)
    expires = min(now + tx.settings().auth_token_exp_timeout + EXPIRY_MARGIN_SECONDS, _MAX_SECONDS)
    tx.put(schema.revocations, {"scope": scope, "subject": subject, "revision": tx.revision, "expires": expires})


def _drop_expired(tx: WriteTransaction, now: int) -> None:
    for row in tx.select(schema.revocations, schema.revocations.c.expires < now):
        tx.delete(schema.revocations, row["scope"], row["subject"])
