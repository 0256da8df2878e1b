"""Changes of users (rbac.md 2, 5, 13.3)."""

from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.security.items import Item, is_reserved, user_items
from secmon.security.passwords import check_password, hash_password
from secmon.security.revocation import revoke_user
from secmon.security.store import schema
from secmon.security.store.replication import Row
from secmon.security.store.transaction import ReadTransaction, WriteTransaction


def create_user(tx: WriteTransaction, username: str, password_hash: str, clock: Clock) -> Item:
    """A user without roles. Raises 5000 for a name in use; names are case-sensitive."""
    if tx.select(schema.users, username=username):
        raise SecmonError(5000, ids=(username,))
    number = tx.next_id(schema.users)
    row: Row = {"id": number, "username": username, "password": password_hash, "allow_run_as": False}
    tx.put(schema.users, row | {"created_at": int(clock.now().timestamp())})
    return user_items(tx, [number])[number]


def replace_password(tx: WriteTransaction, user_id: int, password_hash: str, clock: Clock) -> Item:
    """Change the password; revokes the user's tokens. Raises 5001."""
    return _update(tx, user_id, {"password": password_hash}, clock)


def set_password(tx: WriteTransaction, user_id: int, password: str, clock: Clock) -> Item:
    """Change the password, given in plain text; revokes the user's tokens. Hashing blocks for about 20 ms.

    Raises 5009 or 5007 for a password against the rules, 5001 for an unknown user.
    """
    check_password(password)
    _require(tx, user_id)
    return replace_password(tx, user_id, hash_password(password), clock)


def upgrade_hash(tx: WriteTransaction, user_id: int, *, old: str, new: str) -> bool:
    """Store ``new``, the hash of the password that ``old`` is an outdated hash of; tokens stay valid.

    Only while ``old`` is the hash that is stored: a change of the password meanwhile wins. Returns whether it was
    stored.
    """
    row = tx.get(schema.users, user_id)
    if row is None or row["password"] != old:
        return False
    tx.put(schema.users, row | {"password": new})
    return True


def set_run_as(tx: WriteTransaction, user_id: int, allow: bool, clock: Clock) -> Item:
    """Whether the user may log in with an authorization context; revokes the user's tokens. Raises 5001."""
    return _update(tx, user_id, {"allow_run_as": allow}, clock)


def delete_user(tx: WriteTransaction, user_id: int, *, caller: int, clock: Clock) -> Item:
    """Delete a user and revoke the user's tokens; returns the former user. ``caller`` is the id of the calling user.

    Raises 5004 for reserved users, 5008 for the caller, 5001.
    """
    if is_reserved(user_id):
        raise SecmonError(5004, ids=(user_id,))
    if user_id == caller:
        raise SecmonError(5008, ids=(user_id,))
    _require(tx, user_id)
    before = user_items(tx, [user_id])[user_id]
    tx.delete(schema.users, user_id)
    revoke_user(tx, user_id, clock)
    return before


def _update(tx: WriteTransaction, user_id: int, changes: Row, clock: Clock) -> Item:
    tx.put(schema.users, _require(tx, user_id) | changes)
    revoke_user(tx, user_id, clock)
    return user_items(tx, [user_id])[user_id]


def _require(tx: ReadTransaction, user_id: int) -> Row:
    row = tx.get(schema.users, user_id)
    if row is None:
        raise SecmonError(5001, ids=(user_id,))
    return row
