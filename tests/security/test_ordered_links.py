"""Ordered links stay dense and in order, whatever is done to them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.errors import SecmonError
from secmon.security import link_changes
from secmon.security.ordered_links import (
    ROLE_POLICIES,
    USER_ROLES,
    OrderedLinks,
    insert_link,
    linked_members,
    remove_link,
)
from secmon.security.policy_changes import delete_policy
from secmon.security.role_changes import delete_role
from secmon.security.store import schema
from secmon.security.store.security_store import SecurityStore
from secmon.security.store.transaction import WriteTransaction
from tests.manual_clock import ManualClock
from tests.security.store.rows import put_policy, put_role, put_user

OWNERS, MEMBERS = (100, 101), tuple(range(200, 207))

STEP = st.tuples(
    st.sampled_from(["link", "unlink", "delete"]),
    st.sampled_from(OWNERS),
    st.sampled_from(MEMBERS),
    st.none() | st.integers(0, 9),
)


class Undo(Exception):
    """Ends a transaction without a trace."""


@contextmanager
def trial(store: SecurityStore) -> Iterator[WriteTransaction]:
    """A transaction that is rolled back."""
    try:
        with store.write() as tx:
            yield tx
            raise Undo
    except Undo:
        pass


def prepared(tx: WriteTransaction) -> None:
    """Users 100 and 101 besides what there is, roles and policies 200 to 206, none linked."""
    for owner in OWNERS:
        tx.delete(schema.users, owner)
        put_user(tx, owner)
        tx.delete(schema.roles, owner)
        put_role(tx, owner)
    for member in MEMBERS:
        put_role(tx, member)
        put_policy(tx, member)


def positions(tx: WriteTransaction, chain: OrderedLinks, owner: int) -> list[int]:
    return sorted(row["position"] for row in tx.select(chain.table, **{chain.owner: owner}))


@pytest.mark.parametrize("chain", [USER_ROLES, ROLE_POLICIES], ids=["user_roles", "role_policies"])
def test_positions_stay_dense_under_any_operations(store: SecurityStore, chain: OrderedLinks) -> None:
    @settings(max_examples=60)
    @given(st.lists(STEP, max_size=25))
    def run(steps: list[tuple[str, int, int, int | None]]) -> None:
        with trial(store) as tx:
            prepared(tx)
            model: dict[int, list[int]] = {owner: [] for owner in OWNERS}
            gone: set[int] = set()
            for kind, owner, member, position in steps:
                apply(tx, chain, model, gone, kind, owner, member, position)
                for each, order in model.items():
                    assert linked_members(tx, chain, each) == order
                    assert positions(tx, chain, each) == list(range(len(order)))

    run()


def apply(
    tx: WriteTransaction,
    chain: OrderedLinks,
    model: dict[int, list[int]],
    gone: set[int],
    kind: str,
    owner: int,
    member: int,
    position: int | None,
) -> None:
    """Do a step to the store through the product, to the model by plain list operations."""
    roles = chain is USER_ROLES
    order, clock = model[owner], ManualClock()
    missing, there, absent = (4002, 4017, 4016) if roles else (4007, 4011, 4010)
    expected: int | None = missing if member in gone else None
    try:
        if kind == "link":
            (link_changes.link_role if roles else link_changes.link_policy)(tx, owner, member, position)
        elif kind == "unlink":
            (link_changes.unlink_role if roles else link_changes.unlink_policy)(tx, owner, member)
        else:
            (delete_role if roles else delete_policy)(tx, member, clock)
        code = None
    except SecmonError as error:
        code = error.code
    if expected is None and kind == "link":
        if member in order:
            expected = None if position is not None else there
        else:
            order.insert(len(order) if position is None else position, member)
    elif expected is None and kind == "unlink":
        if member in order:
            order.remove(member)
        else:
            expected = absent
    elif expected is None:
        gone.add(member)
        for each in model.values():
            if member in each:
                each.remove(member)
    assert code == expected


def test_only_rows_that_move_are_written(store: SecurityStore) -> None:
    with trial(store) as tx:
        prepared(tx)
        for member in MEMBERS[:3]:
            insert_link(tx, USER_ROLES, 100, member, None)
        before = tx.recorded
        insert_link(tx, USER_ROLES, 100, MEMBERS[3], None)
        assert tx.recorded == before + 1
        remove_link(tx, USER_ROLES, 100, MEMBERS[3])
        assert tx.recorded == before + 2
