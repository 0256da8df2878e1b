"""The origin of a security state: first contents of a new store, promotion of a replica (rbac.md 4)."""

from collections.abc import Container, Mapping, Sequence
from contextlib import AbstractContextManager

import msgspec
from sqlalchemy import or_

from secmon.common.clock import Clock
from secmon.security.key_rotation import replace_signing_key, rotate_signing_key
from secmon.security.passwords import check_password, hash_password
from secmon.security.rbac.defaults import DefaultPolicy, Defaults, load_defaults
from secmon.security.rbac.model import Settings
from secmon.security.revocation import revoke_all
from secmon.security.settings import put_settings
from secmon.security.store import schema
from secmon.security.store.replication import Row
from secmon.security.store.security_store import SecurityStore
from secmon.security.store.transaction import WriteTransaction


def promote(tx: WriteTransaction, clock: Clock) -> None:
    """Make a replica the origin, in place of a master that is lost.

    All tokens are revoked and all signing keys replaced: the replica may lack the master's last revocations.
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

    ``transaction``: an audited one of the store; without it the change is not written to the audit log.
    Raises ``ValueError`` when the store is not empty, 5009 or 5007 for a password against the rules.
    """
    passwords = {1: admin_password, 2: dashboard_password}
    for password in passwords.values():
        check_password(password)
    hashes = {user: hash_password(password) for user, password in passwords.items()}
    with transaction or store.write() as tx:
        if tx.revision != 1:
            raise ValueError("the security store is not empty")
        put_settings(tx, Settings())
        rotate_signing_key(tx, clock)
        _put_defaults(tx, load_defaults(), hashes, int(clock.now().timestamp()))


def missing_policies(known: Container[int]) -> list[DefaultPolicy]:
    """Default policies that are not among the ``known`` ids: they came with a version after the store was made."""
    return [policy for policy in load_defaults().policies if policy.id not in known]


def add_policies(tx: WriteTransaction, missing: Sequence[DefaultPolicy], clock: Clock) -> list[str]:
    """Add default policies, and give them to the default roles that hold them; the names of those added.

    A policy whose name or content a custom policy already has is left out.
    """
    roles, now, added = load_defaults().roles, int(clock.now().timestamp()), []
    for policy in missing:
        body = msgspec.json.encode(policy.policy).decode()
        table = schema.policies
        if tx.select(table, or_(table.c.name == policy.name, table.c.policy == body)):
            continue
        tx.put(table, {"id": policy.id, "name": policy.name, "policy": body, "created_at": now})
        for role in (role.id for role in roles if policy.id in role.policies):
            last = max((row["position"] for row in tx.select(schema.role_policies, role_id=role)), default=-1)
            tx.put(schema.role_policies, {"role_id": role, "policy_id": policy.id, "position": last + 1})
        added.append(policy.name)
    return added


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
