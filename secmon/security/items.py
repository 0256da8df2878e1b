"""Users, roles, policies and rules as items of the API (rbac.md 1)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Table

from secmon.security.ordered_links import ROLE_POLICIES, USER_ROLES, OrderedLinks
from secmon.security.rbac.model import RESERVED_ID_MAX
from secmon.security.store import schema
from secmon.security.store.replication import Row
from secmon.security.store.transaction import ReadTransaction

Item = dict[str, Any]

MAX_IDS_IN_QUERY = 500
"""For more ids the whole table is read."""


class UserItem(msgspec.Struct):
    """A user of the API. ``roles`` in position order."""

    id: int
    username: str
    allow_run_as: bool
    roles: list[int]


class RoleItem(msgspec.Struct):
    """A role. ``policies`` in position order; later ones override earlier ones."""

    id: int
    name: str
    policies: list[int]
    users: list[int]
    rules: list[int]


class PolicyItem(msgspec.Struct):
    """A policy, and the roles that hold it."""

    id: int
    name: str
    policy: dict[str, Any]
    roles: list[int]


class RuleItem(msgspec.Struct):
    """A security rule, and the roles it gives."""

    id: int
    name: str
    rule: dict[str, Any]
    roles: list[int]


def is_reserved(number: int) -> bool:
    """Whether the id belongs to the product (rbac.md 2)."""
    return 1 <= number <= RESERVED_ID_MAX


def user_items(tx: ReadTransaction, ids: Iterable[int] | None = None) -> dict[int, Item]:
    """Users by id, ascending; those of ``ids`` that exist, or all."""
    rows = _rows(tx, schema.users, ids)
    roles = _ordered(tx, USER_ROLES, rows)
    return {
        number: {
            "id": number,
            "username": row["username"],
            "allow_run_as": row["allow_run_as"],
            "roles": roles[number],
        }
        for number, row in rows.items()
    }


def role_items(tx: ReadTransaction, ids: Iterable[int] | None = None) -> dict[int, Item]:
    """Roles by id, as :func:`user_items`."""
    rows = _rows(tx, schema.roles, ids)
    policies = _ordered(tx, ROLE_POLICIES, rows)
    users = _linked(tx, schema.user_roles, "role_id", "user_id", rows)
    rules = _linked(tx, schema.role_rules, "role_id", "rule_id", rows)
    return {
        number: {
            "id": number,
            "name": row["name"],
            "policies": policies[number],
            "users": users[number],
            "rules": rules[number],
        }
        for number, row in rows.items()
    }


def policy_items(tx: ReadTransaction, ids: Iterable[int] | None = None) -> dict[int, Item]:
    """Policies by id, as :func:`user_items`."""
    return _bodies(tx, schema.policies, "policy", schema.role_policies, "policy_id", ids)


def rule_items(tx: ReadTransaction, ids: Iterable[int] | None = None) -> dict[int, Item]:
    """Security rules by id, as :func:`user_items`."""
    return _bodies(tx, schema.rules, "rule", schema.role_rules, "rule_id", ids)


def _bodies(
    tx: ReadTransaction, table: Table, body: str, links: Table, own: str, ids: Iterable[int] | None
) -> dict[int, Item]:
    rows = _rows(tx, table, ids)
    roles = _linked(tx, links, own, "role_id", rows)
    return {
        number: {
            "id": number,
            "name": row["name"],
            body: msgspec.json.decode(row[body]),
            "roles": roles[number],
        }
        for number, row in rows.items()
    }


def _rows(tx: ReadTransaction, table: Table, ids: Iterable[int] | None) -> dict[int, Row]:
    wanted = None if ids is None else set(ids)
    found = tx.select(table, *_among(table.c.id, wanted))
    return {int(row["id"]): row for row in found if wanted is None or row["id"] in wanted}


def _among(column: ColumnElement[Any], ids: Mapping[int, object] | set[int] | None) -> list[ColumnElement[bool]]:
    return [column.in_(ids)] if ids is not None and len(ids) <= MAX_IDS_IN_QUERY else []


def _ordered(tx: ReadTransaction, chain: OrderedLinks, owners: Mapping[int, object]) -> defaultdict[int, list[int]]:
    rows = tx.select(chain.table, *_among(chain.table.c[chain.owner], owners))
    lists: defaultdict[int, list[int]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["position"], row[chain.member])):
        lists[row[chain.owner]].append(row[chain.member])
    return lists


def _linked(
    tx: ReadTransaction, table: Table, own: str, other: str, owners: Mapping[int, object]
) -> defaultdict[int, list[int]]:
    """Ids linked to each owner, ascending."""
    lists: defaultdict[int, list[int]] = defaultdict(list)
    for row in tx.select(table, *_among(table.c[own], owners)):
        lists[row[own]].append(row[other])
    for linked in lists.values():
        linked.sort()
    return lists
