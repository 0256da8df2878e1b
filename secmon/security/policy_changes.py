"""Changes of policies, and the syntax of their bodies (rbac.md 2, 5, 6, 13.3)."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.security.items import Item, is_reserved, policy_items
from secmon.security.ordered_links import ROLE_POLICIES, remove_links_to
from secmon.security.rbac.model import PolicyBody
from secmon.security.revocation import revoke_role
from secmon.security.store import schema
from secmon.security.store.replication import Row
from secmon.security.store.transaction import WriteTransaction

_ACTION = re.compile(r"[a-z_\-]+:[a-z_\-]+", re.ASCII)
# Accepted by both checks of rbac.md 6, on creation and at evaluation.
_COMPONENT = re.compile(r"(?:[a-z_]+:[a-z0-9_]+:[\w/.*\-]+|\*[a-z_\-*]*:[\w\-*]+:[\w/.*\-]+)", re.ASCII)
_MAX_COMPONENTS = 2
_EFFECTS = ("allow", "deny")


def policy_body(given: Mapping[str, Any]) -> PolicyBody:
    """A body in its stored form: everything in lower case but the values of resources.

    Raises 4006 for anything but exactly actions, resources and effect, all well formed.
    """
    try:
        body = msgspec.convert(given, PolicyBody)
    except msgspec.ValidationError as error:
        raise SecmonError(4006, str(error)) from None
    if extra := sorted(set(given) - {"actions", "resources", "effect"}):
        raise SecmonError(4006, f"unknown member {extra[0]!r}")
    effect = body.effect.lower()
    if effect not in _EFFECTS:
        raise SecmonError(4006, f"effect {body.effect!r}")
    return PolicyBody(tuple(map(_action, body.actions)), tuple(map(_resource, body.resources)), effect)


def _action(text: str) -> str:
    if not _ACTION.fullmatch(text.lower()):
        raise SecmonError(4006, f"action {text!r}")
    return text.lower()


def _resource(text: str) -> str:
    components = [_lowered(one) for one in text.split("&")]
    if len(components) > _MAX_COMPONENTS or not all(map(_COMPONENT.fullmatch, components)):
        raise SecmonError(4006, f"resource {text!r}")
    return "&".join(components)


def _lowered(component: str) -> str:
    kind, colon, value = component.rpartition(":")
    return f"{kind.lower()}{colon}{value}"


def create_policy(tx: WriteTransaction, name: str, body: Mapping[str, Any], clock: Clock) -> Item:
    """A policy that no role holds. Raises 4006, and 4009 for a name or a body in use."""
    text = _text(body, name)
    if _taken(tx, name, text, but=None):
        raise SecmonError(4009, ids=(name,))
    number = tx.next_id(schema.policies)
    now = int(clock.now().timestamp())
    tx.put(schema.policies, {"id": number, "name": name, "policy": text, "created_at": now})
    return policy_items(tx, [number])[number]


def update_policy(
    tx: WriteTransaction, policy_id: int, name: str | None, body: Mapping[str, Any] | None, clock: Clock
) -> Item:
    """Change the name, the body, or both; revokes the tokens of roles that hold it. Raises 4008, 4007, 4006, 4013."""
    row = _changeable(tx, policy_id)
    if name is not None:
        row["name"] = name
    if body is not None:
        row["policy"] = _text(body, policy_id)
    if _taken(tx, row["name"], row["policy"], but=policy_id):
        raise SecmonError(4013, ids=(policy_id,))
    tx.put(schema.policies, row)
    after = policy_items(tx, [policy_id])[policy_id]
    for role in after["roles"]:
        revoke_role(tx, role, clock)
    return after


def delete_policy(tx: WriteTransaction, policy_id: int, clock: Clock) -> Item:
    """Delete a policy and revoke the tokens of roles that held it; returns the former policy. Raises 4008, 4007."""
    _changeable(tx, policy_id)
    before = policy_items(tx, [policy_id])[policy_id]
    for role in remove_links_to(tx, ROLE_POLICIES, policy_id):
        revoke_role(tx, role, clock)
    tx.delete(schema.policies, policy_id)
    return before


def _text(body: Mapping[str, Any], subject: int | str) -> str:
    try:
        return msgspec.json.encode(policy_body(body)).decode()
    except SecmonError as error:
        raise SecmonError(error.code, error.extra, ids=(subject,)) from None


def _taken(tx: WriteTransaction, name: str, text: str, *, but: int | None) -> bool:
    same = [*tx.select(schema.policies, name=name), *tx.select(schema.policies, policy=text)]
    return any(row["id"] != but for row in same)


def _changeable(tx: WriteTransaction, policy_id: int) -> Row:
    if is_reserved(policy_id):
        raise SecmonError(4008, ids=(policy_id,))
    row = tx.get(schema.policies, policy_id)
    if row is None:
        raise SecmonError(4007, ids=(policy_id,))
    return row
