"""Short ways to write rows."""

from secmon.security.store import schema
from secmon.security.store.transaction import WriteTransaction


def put_user(tx: WriteTransaction, number: int, name: str = "", *, allow_run_as: bool = False) -> None:
    row = {"id": number, "username": name or f"user{number}", "password": "x"}
    tx.put(schema.users, row | {"allow_run_as": allow_run_as, "created_at": 0})


def put_role(tx: WriteTransaction, number: int, name: str = "") -> None:
    tx.put(schema.roles, {"id": number, "name": name or f"role{number}", "created_at": 0})


def put_policy(tx: WriteTransaction, number: int, resource: str = "agent:id:*", effect: str = "allow") -> None:
    # Bodies are unique: each has its own action.
    body = f'{{"actions":["agent:read","own:p{number}"],"resources":["{resource}"],"effect":"{effect}"}}'
    tx.put(schema.policies, {"id": number, "name": f"policy{number}", "policy": body, "created_at": 0})


def link_role(tx: WriteTransaction, user: int, role: int, position: int = 0) -> None:
    tx.put(schema.user_roles, {"user_id": user, "role_id": role, "position": position})


def link_policy(tx: WriteTransaction, role: int, policy: int, position: int = 0) -> None:
    tx.put(schema.role_policies, {"role_id": role, "policy_id": policy, "position": position})
