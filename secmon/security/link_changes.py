"""Linking roles to users, policies and rules to roles (rbac.md 1.1, 2 and the order of checks in 5).

Every function makes or removes one link and revokes nothing: a request with several links revokes once, when one of
them was done.
"""

from secmon.common.errors import SecmonError
from secmon.security.items import is_reserved
from secmon.security.ordered_links import ROLE_POLICIES, USER_ROLES, insert_link, remove_link
from secmon.security.store import schema
from secmon.security.store.transaction import ReadTransaction, WriteTransaction


def require_user(tx: ReadTransaction, user_id: int) -> None:
    """Raises 5001."""
    if tx.get(schema.users, user_id) is None:
        raise SecmonError(5001, ids=(user_id,))


def require_role(tx: ReadTransaction, role_id: int) -> None:
    """Raises 4002."""
    if tx.get(schema.roles, role_id) is None:
        raise SecmonError(4002, ids=(role_id,))


def link_role(tx: WriteTransaction, user_id: int, role_id: int, position: int | None) -> None:
    """Give the user a role. One that the user has keeps its position: an error without ``position``, none with it.

    Raises 4008 (of the user), 5001, 4002, 4017.
    """
    _custom(user_id, of=user_id)
    require_user(tx, user_id)
    require_role(tx, role_id)
    if tx.get(schema.user_roles, user_id, role_id) is None:
        insert_link(tx, USER_ROLES, user_id, role_id, position)
    elif position is None:
        raise SecmonError(4017, ids=(role_id,))


def unlink_role(tx: WriteTransaction, user_id: int, role_id: int) -> None:
    """Remove a role from the user. Raises 4008 (of the user), 4002, 4016."""
    _custom(user_id, of=user_id)
    require_role(tx, role_id)
    if tx.get(schema.user_roles, user_id, role_id) is None:
        raise SecmonError(4016, ids=(role_id,))
    remove_link(tx, USER_ROLES, user_id, role_id)


def link_policy(tx: WriteTransaction, role_id: int, policy_id: int, position: int | None) -> None:
    """Give the role a policy, as :func:`link_role` does. Raises 4008 and 4002 (of the role), 4007, 4011."""
    _custom(role_id, of=role_id)
    require_role(tx, role_id)
    _require_policy(tx, policy_id)
    if tx.get(schema.role_policies, role_id, policy_id) is None:
        insert_link(tx, ROLE_POLICIES, role_id, policy_id, position)
    elif position is None:
        raise SecmonError(4011, ids=(policy_id,))


def unlink_policy(tx: WriteTransaction, role_id: int, policy_id: int) -> None:
    """Remove a policy from the role. Raises 4008 (of the role), 4007, 4010."""
    _custom(role_id, of=role_id)
    _require_policy(tx, policy_id)
    if tx.get(schema.role_policies, role_id, policy_id) is None:
        raise SecmonError(4010, ids=(policy_id,))
    remove_link(tx, ROLE_POLICIES, role_id, policy_id)


def link_rule(tx: WriteTransaction, role_id: int, rule_id: int) -> None:
    """Link a custom rule to a role, which may be a reserved one. Raises 4008 (of the role), 4022, 4002, 4023."""
    _custom(rule_id, of=role_id)
    _require_rule(tx, rule_id)
    require_role(tx, role_id)
    if tx.get(schema.role_rules, role_id, rule_id) is not None:
        raise SecmonError(4023, ids=(rule_id,))
    tx.put(schema.role_rules, {"role_id": role_id, "rule_id": rule_id})


def unlink_rule(tx: WriteTransaction, role_id: int, rule_id: int) -> None:
    """Unlink a custom rule from a role. Raises 4008 (of the role), 4022, 4024."""
    _custom(rule_id, of=role_id)
    _require_rule(tx, rule_id)
    if not tx.delete(schema.role_rules, role_id, rule_id):
        raise SecmonError(4024, ids=(rule_id,))


def _custom(number: int, *, of: int) -> None:
    if is_reserved(number):
        raise SecmonError(4008, ids=(of,))


def _require_policy(tx: ReadTransaction, policy_id: int) -> None:
    if tx.get(schema.policies, policy_id) is None:
        raise SecmonError(4007, ids=(policy_id,))


def _require_rule(tx: ReadTransaction, rule_id: int) -> None:
    if tx.get(schema.rules, rule_id) is None:
        raise SecmonError(4022, ids=(rule_id,))
