"""Copies: a chain of changes and a snapshot lead to the same content."""

import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.errors import SecmonError
from secmon.security.store import schema
from secmon.security.store.replication import Change, Snapshot
from secmon.security.store.security_store import SecurityStore
from secmon.security.store.transaction import WriteTransaction
from tests.security.store.conftest import OpenStore
from tests.security.store.rows import link_policy, link_role, put_policy, put_role, put_user

Step = tuple[str, int, int]

NUMBERS = st.integers(100, 104)
STEPS = st.tuples(
    st.sampled_from(["user", "role", "policy", "link", "grant", "drop user", "drop role", "drop policy", "id"]),
    NUMBERS,
    NUMBERS,
)


def perform(tx: WriteTransaction, step: Step) -> None:
    what, one, two = step
    if what == "user":
        put_user(tx, one, f"user{one}", allow_run_as=two % 2 == 0)
    elif what == "role":
        put_role(tx, one, f"role{one}-{two}")
    elif what == "policy":
        put_policy(tx, one, f"agent:id:{two}")
    elif what == "id":
        tx.next_id(schema.users)
    elif what == "link" and tx.get(schema.users, one) and tx.get(schema.roles, two):
        link_role(tx, one, two, position=two)
    elif what == "grant" and tx.get(schema.roles, one) and tx.get(schema.policies, two):
        link_policy(tx, one, two, position=one)
    elif what.startswith("drop"):
        tx.delete({"user": schema.users, "role": schema.roles, "policy": schema.policies}[what[5:]], one)


def travel(snapshot: Snapshot) -> Snapshot:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(snapshot), type=Snapshot)


def follow(replica: SecurityStore, master: SecurityStore) -> None:
    changes = master.changes_since(replica.revision())
    assert changes is not None
    wire = msgspec.msgpack.encode(changes)
    received = msgspec.msgpack.decode(wire, type=list[Change])
    replica.apply_changes(master.store_id(), replica.revision(), received, master.revision())


@settings(max_examples=40)
@given(st.lists(st.tuples(st.lists(STEPS, min_size=1, max_size=6), st.booleans()), min_size=1, max_size=6))
def test_incremental_changes_equal_a_snapshot(writes: list[tuple[list[Step], bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        master = SecurityStore(Path(folder) / "master.db")
        follower = SecurityStore(Path(folder) / "follower.db", writable=False)
        copy = SecurityStore(Path(folder) / "copy.db", writable=False)
        with master.write() as tx:
            put_user(tx, 1)
        follower.apply_snapshot(travel(master.snapshot()))
        for steps, catch_up in writes:
            with master.write() as tx:
                for step in steps:
                    perform(tx, step)
            if catch_up:
                follow(follower, master)
                assert follower.digest() == master.digest()
        follow(follower, master)
        copy.apply_snapshot(travel(master.snapshot()))
        assert follower.digest() == copy.digest() == master.digest()
        assert follower.view().roles == copy.view().roles == master.view().roles
        for store in (master, follower, copy):
            store.close()


@pytest.fixture
def pair(open_store: OpenStore) -> tuple[SecurityStore, SecurityStore]:
    """A master at revision 1 and a replica that holds the same."""
    master, replica = open_store("master.db"), open_store("replica.db", writable=False)
    with master.write() as tx:
        put_user(tx, 100, allow_run_as=True)
    replica.apply_snapshot(travel(master.snapshot()))
    return master, replica


def test_digest_differs_with_content_and_revision(pair: tuple[SecurityStore, SecurityStore]) -> None:
    master, replica = pair
    assert master.digest() == replica.digest()
    with master.write() as tx:
        put_user(tx, 100, allow_run_as=True)
    assert master.digest() != replica.digest()


def test_wrong_base_is_refused(pair: tuple[SecurityStore, SecurityStore]) -> None:
    master, replica = pair
    with master.write() as tx:
        put_user(tx, 101)
    changes = master.changes_since(1) or []
    for store_id, base in ((master.store_id(), 0), (master.store_id(), 2), ("other", 1)):
        with pytest.raises(SecmonError, match="3045"):
            replica.apply_changes(store_id, base, changes, 2)
    assert (replica.revision(), replica.view().user("user101")) == (1, None)


@pytest.mark.parametrize(
    "change",
    [
        Change(2, "meta", ("store_id",), None),
        Change(2, "users", (), None),
        Change(2, "users", (100,), b"\xc1"),
        Change(2, "roles", (100,), msgspec.msgpack.encode({"id": 100, "name": "r"})),
        Change(2, "roles", (101,), msgspec.msgpack.encode({"id": 100, "name": "r", "created_at": 0})),
        Change(2, "roles", (100,), msgspec.msgpack.encode({"id": 100, "name": None, "created_at": 0})),
        Change(2, "user_roles", (100, 7), msgspec.msgpack.encode({"user_id": 100, "role_id": 7, "position": 0})),
        Change(3, "users", (100,), None),
        Change(1, "users", (100,), None),
    ],
)
def test_bad_change_is_refused_whole(change: Change, pair: tuple[SecurityStore, SecurityStore]) -> None:
    master, replica = pair
    good = Change(2, "roles", (5,), msgspec.msgpack.encode({"id": 5, "name": "five", "created_at": 0}))
    with pytest.raises(SecmonError, match="3045"):
        replica.apply_changes(master.store_id(), 1, [good, change], 2)
    assert replica.digest() == master.digest()


def test_bad_snapshot_is_refused_whole(pair: tuple[SecurityStore, SecurityStore]) -> None:
    master, replica = pair
    good = master.snapshot()
    bad = [
        msgspec.structs.replace(good, tables={}),
        msgspec.structs.replace(good, revision=0),
        msgspec.structs.replace(good, tables=good.tables | {"users": []}),
        msgspec.structs.replace(good, columns=good.columns | {"users": ("id",)}),
        msgspec.structs.replace(good, tables=good.tables | {"users": [(1, "short")]}),
        msgspec.structs.replace(good, tables=good.tables | {"user_roles": [(100, 9, 0)]}),
    ]
    for snapshot in bad:
        with pytest.raises(SecmonError, match="3045"):
            replica.apply_snapshot(snapshot)
    assert replica.digest() == master.digest()


def test_a_snapshot_of_a_later_release(pair: tuple[SecurityStore, SecurityStore]) -> None:
    """What this release does not know is left out."""
    master, replica = pair
    sent = msgspec.to_builtins(master.snapshot())
    sent |= {"schema_version": 3, "new": True}
    sent["columns"] |= {"users": ["new", *sent["columns"]["users"]], "badges": ["id"]}
    sent["tables"] |= {"users": [[7, *row] for row in sent["tables"]["users"]], "badges": [[1]]}
    other = msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=Snapshot)
    replica.apply_snapshot(other)
    assert replica.digest() == master.digest()


def test_a_snapshot_of_an_earlier_release(pair: tuple[SecurityStore, SecurityStore]) -> None:
    """Columns that are missing have their defaults, tables that are missing are empty."""
    master, replica = pair
    with master.write() as tx:
        put_role(tx, 7, "seven")
        tx.put(schema.revocations, {"scope": "user", "subject": "100", "revision": 2, "expires": 5})
    good = master.snapshot()
    columns = {name: names for name, names in good.columns.items() if name != "roles"}
    tables = {name: rows for name, rows in good.tables.items() if name != "roles"}
    columns["revocations"] = columns["revocations"][:-1]
    tables["revocations"] = [row[:-1] for row in tables["revocations"]]
    replica.apply_snapshot(msgspec.structs.replace(good, schema_version=1, columns=columns, tables=tables))
    with replica.read() as tx:
        assert tx.select(schema.revocations) == [{"scope": "user", "subject": "100", "revision": 2, "expires": None}]
        assert tx.select(schema.roles) == []


def test_changes_of_other_releases(pair: tuple[SecurityStore, SecurityStore]) -> None:
    master, replica = pair
    row = {"scope": "user", "subject": "100", "revision": 2}
    later = {"id": 5, "name": "five", "created_at": 0, "badge": 9}
    changes = [
        Change(2, "revocations", ("user", "100"), msgspec.msgpack.encode(row)),
        Change(2, "roles", (5,), msgspec.msgpack.encode(later)),
        Change(2, "badges", (9,), msgspec.msgpack.encode({"id": 9})),
        Change(2, "badges", (8,), None),
    ]
    sent = [[*msgspec.structs.astuple(change), "new"] for change in changes]
    received = msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=list[Change])
    replica.apply_changes(master.store_id(), 1, received, 2)
    with replica.read() as tx:
        assert tx.get(schema.revocations, "user", "100") == row | {"expires": None}
        assert tx.get(schema.roles, 5) == {"id": 5, "name": "five", "created_at": 0}


def test_replica_keeps_no_log(pair: tuple[SecurityStore, SecurityStore]) -> None:
    master, replica = pair
    with master.write() as tx:
        put_user(tx, 101)
    follow(replica, master)
    assert replica.changes_since(1) is None
    assert replica.changes_since(2) == []


def test_snapshot_of_another_master_replaces_everything(
    open_store: OpenStore, pair: tuple[SecurityStore, SecurityStore]
) -> None:
    _, replica = pair
    assert replica.view().user("user100") is not None
    other = open_store("other.db")
    with other.write() as tx:
        put_user(tx, 1)
        put_role(tx, 100, "theirs")
    replica.apply_snapshot(travel(other.snapshot()))
    assert replica.store_id() == other.store_id()
    assert replica.view().user("user100") is None
    assert replica.view().roles[100].name == "theirs"
