"""Writing, the change log, positions."""

import sqlite3
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import exc

from secmon.cluster.store_checks import read_security_summary
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.common.migrations import revision
from secmon.common.sqlite.faults import StoreFault
from secmon.common.sqlite.migration import migrate
from secmon.security.key_rotation import register_signing_key, rotate_signing_key
from secmon.security.signing_keys import new_signing_key
from secmon.security.store import schema
from secmon.security.store.schema import SCHEMA, SINCE_GENERATION_3
from secmon.security.store.security_store import SecurityStore
from tests.security.store.conftest import OpenStore
from tests.security.store.rows import link_policy, link_role, put_policy, put_role, put_user


def test_one_revision_per_write(open_store: OpenStore) -> None:
    store = open_store()
    assert store.revision() == 0
    with store.write() as tx:
        put_user(tx, 100)
        put_user(tx, 101)
        assert tx.revision == 1
    assert store.revision() == 1
    with store.write() as tx:
        assert tx.get(schema.users, 101) is not None
    assert store.revision() == 1  # nothing written


def test_failed_write_leaves_no_trace(open_store: OpenStore) -> None:
    store = open_store()

    def write_both() -> None:
        with store.write() as tx:
            put_user(tx, 100, "same")
            put_user(tx, 101, "same")

    with pytest.raises(exc.IntegrityError):
        write_both()
    assert store.revision() == 0
    assert store.changes_since(0) == []
    assert store.view().user("same") is None


def test_ids_are_never_reused(open_store: OpenStore) -> None:
    store = open_store()
    with store.write() as tx:
        first = tx.next_id(schema.users)
        put_user(tx, first)
    with store.write() as tx:
        assert tx.delete(schema.users, first)
    with store.write() as tx:
        assert (first, tx.next_id(schema.users), tx.next_id(schema.roles)) == (100, 101, 100)


def test_delete_records_the_deleted_links(open_store: OpenStore) -> None:
    store = open_store()
    with store.write() as tx:
        put_user(tx, 100)
        put_role(tx, 100)
        put_policy(tx, 100)
        link_role(tx, 100, 100)
        link_policy(tx, 100, 100)
    with store.write() as tx:
        assert tx.delete(schema.roles, 100)
        assert not tx.delete(schema.roles, 100)
    changes = store.changes_since(1) or []
    assert [(change.table, change.key, change.row) for change in changes] == [
        ("user_roles", (100, 100), None),
        ("role_policies", (100, 100), None),
        ("roles", (100,), None),
    ]


def test_put_needs_the_whole_row(open_store: OpenStore) -> None:
    with pytest.raises(ValueError, match="exactly"), open_store().write() as tx:
        tx.put(schema.roles, {"id": 100, "name": "half"})


def test_log_is_trimmed(open_store: OpenStore) -> None:
    store = open_store(kept_revisions=3)
    for number in range(100, 110):
        with store.write() as tx:
            put_role(tx, number)
    assert store.changes_since(6) is None
    assert [change.key for change in store.changes_since(7) or []] == [(107,), (108,), (109,)]
    assert store.changes_since(10) == []
    assert store.changes_since(11) is None


def test_log_and_identity_survive_a_reopening(open_store: OpenStore) -> None:
    first = open_store()
    with first.write() as tx:
        put_role(tx, 100)
    identity = first.store_id()
    first.close()
    second = open_store()
    assert second.store_id() == identity != ""
    assert len(second.changes_since(0) or []) == 1


def test_replica_refuses_writes(open_store: OpenStore) -> None:
    replica = open_store(writable=False)
    assert replica.store_id() == ""
    with pytest.raises(PermissionError), replica.write():
        pass


def test_master_refuses_to_be_overwritten(open_store: OpenStore) -> None:
    store = open_store()
    with pytest.raises(PermissionError):
        store.apply_snapshot(store.snapshot())


def test_a_missing_store_is_created_only_on_request(tmp_path: Path) -> None:
    for writable in (True, False):
        with pytest.raises(FileNotFoundError, match=r"security\.db"):
            SecurityStore(tmp_path / "lost/security.db", writable=writable, create=False)
    assert not (tmp_path / "lost").exists()


def test_a_removed_file_is_not_created_again(open_store: OpenStore) -> None:
    store = open_store()
    with store.read():  # this connection is in use: the next one is opened again
        store.path.unlink()
        with pytest.raises(StoreFault, match="could not be read or written"), store.read():
            pass
    assert not store.path.exists()


def test_a_promoted_copy_has_its_own_name(open_store: OpenStore) -> None:
    master, replica = open_store("master.db"), open_store("replica.db", writable=False)
    for number in (1, 2):
        with master.write() as tx:
            put_user(tx, number)
    replica.apply_snapshot(master.snapshot())
    assert read_security_summary(replica.path) == (master.store_id(), 2, True, True)
    replica.close()
    taken = open_store("replica.db")
    with taken.write() as tx:
        tx.take_over()
        put_user(tx, 3)
    assert read_security_summary(taken.path) == (taken.store_id(), 3, False, True)
    assert taken.store_id() != master.store_id()
    other = open_store("other.db", writable=False)
    other.apply_snapshot(master.snapshot())
    other.apply_snapshot(taken.snapshot())
    assert other.digest() == taken.digest()


def test_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "security.db"
    SecurityStore(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE alembic_version SET version_num = ?", (revision(SCHEMA.version + 1),))
    raw.close()
    with pytest.raises(SecmonError, match="newer version of secmon"):
        SecurityStore(path)


def as_version_1(path: Path) -> None:
    """Turn a store back into what the version before would have left: one key, private half and all, on every node."""
    with sqlite3.connect(path) as raw:
        for table in ("private_keys", *SINCE_GENERATION_3):
            raw.execute(f"DROP TABLE {table}")
        raw.execute("DROP TABLE signing_keys")
        raw.execute(
            "CREATE TABLE signing_keys (kid TEXT PRIMARY KEY, private_pem TEXT NOT NULL, public_pem TEXT NOT NULL,"
            " created INTEGER NOT NULL, retired_at INTEGER)"
        )
        raw.execute("INSERT INTO signing_keys VALUES ('old', 'PRIVATE', 'PUBLIC', 1, NULL)")
        raw.execute("UPDATE meta SET value = '1' WHERE name = 'schema_version'")
        raw.execute("DROP TABLE alembic_version")
    raw.close()


def test_the_shared_key_of_version_1_is_deleted_and_replicas_converge(tmp_path: Path) -> None:
    paths = {True: tmp_path / "master.db", False: tmp_path / "replica.db"}
    master = SecurityStore(paths[True])
    with master.write() as tx:
        put_user(tx, 1)
    replica = SecurityStore(paths[False], writable=False)
    replica.apply_snapshot(master.snapshot())
    for writable, store in ((True, master), (False, replica)):
        store.close()
        as_version_1(paths[writable])
        with pytest.raises(SecmonError, match="restart the node"):
            SecurityStore(paths[writable], writable=writable)
        migrate(paths[writable], SCHEMA, SystemClock())
    master, replica = SecurityStore(paths[True]), SecurityStore(paths[False], writable=False)
    key = master.view().signing_key
    assert key is not None
    assert list(master.view().keys) == [key.kid]
    assert (master.revision(), replica.revision()) == (1, 1)
    assert replica.view().keys == {}
    assert master.digest() != replica.digest(), "so that the replica fetches a snapshot"
    assert master.changes_since(0) is None
    replica.apply_snapshot(master.snapshot())
    assert master.digest() == replica.digest()
    assert [one.private_pem for one in replica.view().keys.values()] == [None]
    master.close()
    replica.close()


def test_private_keys_stay_on_their_node(tmp_path: Path) -> None:
    master, replica = SecurityStore(tmp_path / "m.db"), SecurityStore(tmp_path / "r.db", writable=False)
    with master.write() as tx:
        put_user(tx, 1)
        own = rotate_signing_key(tx, SystemClock())
    made = new_signing_key(SystemClock(), "w")
    assert own.private_pem
    assert made.private_pem
    replica.apply_snapshot(master.snapshot())
    assert replica.view().signing_key is None
    with master.write() as tx:
        register_signing_key(tx, "w", made.kid, made.public_pem, SystemClock())
    replica.apply_changes(master.store_id(), 1, master.changes_since(1) or [], 2)
    assert replica.view().signing_key is None
    replica.keep_private_key(made.kid, made.private_pem)
    key = replica.view().signing_key
    assert key is not None
    assert (key.kid, key.node, key.private_pem) == (made.kid, "w", made.private_pem)
    assert master.digest() == replica.digest()
    travelled = msgspec.msgpack.encode((master.snapshot(), master.changes_since(0)))
    for pem in (own.private_pem, made.private_pem):
        assert pem.encode() not in travelled
    replica.apply_snapshot(master.snapshot())
    assert replica.view().signing_key is not None, "a snapshot leaves it alone"
    master.close()
    replica.close()
