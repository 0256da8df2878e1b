"""Ordered links: the roles of a user, the policies of a role. Positions are 0..n-1 at all times (rbac.md 1.1)."""

from typing import NamedTuple

from sqlalchemy import Table

from secmon.security.store import schema
from secmon.security.store.transaction import ReadTransaction, WriteTransaction


class OrderedLinks(NamedTuple):
    """A link table whose rows have a position within their owner."""

    table: Table
    owner: str
    member: str


USER_ROLES = OrderedLinks(schema.user_roles, "user_id", "role_id")
ROLE_POLICIES = OrderedLinks(schema.role_policies, "role_id", "policy_id")


def linked_members(tx: ReadTransaction, chain: OrderedLinks, owner: int) -> list[int]:
    """The members of ``owner`` in order."""
    rows = tx.select(chain.table, **{chain.owner: owner})
    return [int(row[chain.member]) for row in sorted(rows, key=lambda row: int(row["position"]))]


def insert_link(tx: WriteTransaction, chain: OrderedLinks, owner: int, member: int, position: int | None) -> None:
    """Add a member at ``position``, or at the end when that is None or too high; later ones move back by one."""
    order = linked_members(tx, chain, owner)
    order.insert(len(order) if position is None else position, member)
    _renumber(tx, chain, owner, order)


def remove_link(tx: WriteTransaction, chain: OrderedLinks, owner: int, member: int) -> None:
    """Remove a member; later ones move up."""
    order = [one for one in linked_members(tx, chain, owner) if one != member]
    tx.delete(chain.table, owner, member)
    _renumber(tx, chain, owner, order)


def remove_links_to(tx: WriteTransaction, chain: OrderedLinks, member: int) -> list[int]:
    """Remove a member from all owners; returns the owners."""
    owners = [int(row[chain.owner]) for row in tx.select(chain.table, **{chain.member: member})]
    for owner in owners:
        remove_link(tx, chain, owner, member)
    return owners


def _renumber(tx: WriteTransaction, chain: OrderedLinks, owner: int, order: list[int]) -> None:
    """Number the members 0..n-1; rows with the right position are not written."""
    rows = tx.select(chain.table, **{chain.owner: owner})
    held = {int(row[chain.member]): row["position"] for row in rows}
    for position, member in enumerate(order):
        if held.get(member) != position:
            tx.put(chain.table, {chain.owner: owner, chain.member: member, "position": position})
