"""Changes of security rules (rbac.md 2, 3, 5, 13.3)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.security.items import Item, is_reserved, rule_items
from secmon.security.revocation import revoke_role, revoke_run_as
from secmon.security.store import schema
from secmon.security.store.replication import Row
from secmon.security.store.transaction import WriteTransaction

MAX_DEPTH = 64
"""Maximum nesting of objects and lists in a rule; evaluation can take far more."""


def rule_text(rule: Mapping[str, Any]) -> str:
    """A rule as it is stored: null members left out, at every depth. Operators are not checked (rbac.md 3).

    Raises 4003 for a rule nested deeper than ``MAX_DEPTH``.
    """
    return msgspec.json.encode(_without_nulls(rule, MAX_DEPTH)).decode()


def _without_nulls(value: Any, depth: int) -> Any:
    if depth < 0:
        raise SecmonError(4003)
    if isinstance(value, Mapping):
        return {name: _without_nulls(one, depth - 1) for name, one in value.items() if one is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(one, depth - 1) for one in value]
    return value


def create_rule(tx: WriteTransaction, name: str, rule: Mapping[str, Any], clock: Clock) -> Item:
    """A rule that gives no role. Raises 4003, and 4005 for a name or a body in use."""
    text = _text(rule, name)
    if _taken(tx, name, text, but=None):
        raise SecmonError(4005, ids=(name,))
    number = tx.next_id(schema.rules)
    now = int(clock.now().timestamp())
    tx.put(schema.rules, {"id": number, "name": name, "rule": text, "created_at": now})
    return rule_items(tx, [number])[number]


def update_rule(
    tx: WriteTransaction, rule_id: int, name: str | None, rule: Mapping[str, Any] | None, clock: Clock
) -> Item:
    """Change the name, the body, or both; revokes the tokens it may have granted. Raises 4008, 4022, 4003, 4005."""
    row = _changeable(tx, rule_id)
    if name is not None:
        row["name"] = name
    if rule is not None:
        row["rule"] = _text(rule, rule_id)
    if _taken(tx, row["name"], row["rule"], but=rule_id):
        raise SecmonError(4005, ids=(rule_id,))
    tx.put(schema.rules, row)
    after = rule_items(tx, [rule_id])[rule_id]
    _revoke(tx, after, clock)
    return after


def delete_rule(tx: WriteTransaction, rule_id: int, clock: Clock) -> Item:
    """Delete a rule and revoke the tokens it may have granted; returns the former rule. Raises 4008, 4022."""
    _changeable(tx, rule_id)
    before = rule_items(tx, [rule_id])[rule_id]
    tx.delete(schema.rules, rule_id)
    _revoke(tx, before, clock)
    return before


def _revoke(tx: WriteTransaction, item: Item, clock: Clock) -> None:
    """Revoke linked roles and all run_as logins: the new body does not say what the rule granted before."""
    for role in item["roles"]:
        revoke_role(tx, role, clock)
    revoke_run_as(tx, clock)


def _text(rule: Mapping[str, Any], subject: int | str) -> str:
    try:
        return rule_text(rule)
    except SecmonError as error:
        raise SecmonError(error.code, error.extra, ids=(subject,)) from None


def _taken(tx: WriteTransaction, name: str, text: str, *, but: int | None) -> bool:
    same = [*tx.select(schema.rules, name=name), *tx.select(schema.rules, rule=text)]
    return any(row["id"] != but for row in same)


def _changeable(tx: WriteTransaction, rule_id: int) -> Row:
    if is_reserved(rule_id):
        raise SecmonError(4008, ids=(rule_id,))
    row = tx.get(schema.rules, rule_id)
    if row is None:
        raise SecmonError(4022, ids=(rule_id,))
    return row
