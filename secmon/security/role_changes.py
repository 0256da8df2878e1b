"""Changes of roles (rbac.md 2, 5, 13.3)."""

from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.security.items import Item, is_reserved, role_items
from secmon.security.ordered_links import USER_ROLES, remove_links_to
from secmon.security.revocation import revoke_role
from secmon.security.store import schema
from secmon.security.store.replication import Row
from secmon.security.store.transaction import WriteTransaction


def create_role(tx: WriteTransaction, name: str, clock: Clock) -> Item:
    """A role that holds nothing. Raises 4005 for a name in use."""
    if tx.select(schema.roles, name=name):
        raise SecmonError(4005, ids=(name,))
    number = tx.next_id(schema.roles)
    tx.put(schema.roles, {"id": number, "name": name, "created_at": int(clock.now().timestamp())})
    return role_items(tx, [number])[number]


def rename_role(tx: WriteTransaction, role_id: int, name: str, clock: Clock) -> Item:
    """Rename a role; revokes the tokens that carry the role. Raises 4008, 4002, 4005."""
    row = _changeable(tx, role_id)
    if any(one["id"] != role_id for one in tx.select(schema.roles, name=name)):
        raise SecmonError(4005, ids=(role_id,))
    tx.put(schema.roles, row | {"name": name})
    revoke_role(tx, role_id, clock)
    return role_items(tx, [role_id])[role_id]


def delete_role(tx: WriteTransaction, role_id: int, clock: Clock) -> Item:
    """Delete a role and revoke the tokens that carry it; returns the former role. Raises 4008, 4002."""
    _changeable(tx, role_id)
    before = role_items(tx, [role_id])[role_id]
    remove_links_to(tx, USER_ROLES, role_id)
    tx.delete(schema.roles, role_id)
    revoke_role(tx, role_id, clock)
    return before


def _changeable(tx: WriteTransaction, role_id: int) -> Row:
    if is_reserved(role_id):
        raise SecmonError(4008, ids=(role_id,))
    row = tx.get(schema.roles, role_id)
    if row is None:
        raise SecmonError(4002, ids=(role_id,))
    return row
