"""A node's copy of the audit log, made from the store of record."""

from pathlib import Path

import pytest

from secmon.cluster.leadership.term import Term
from secmon.cluster.record.audit_record import bring_log_up_to
from secmon.common.clock import SystemClock
from secmon.common.sqlite.faults import RecordFault
from secmon.security.audit import Actor, audited
from secmon.security.audit_check import verify
from secmon.security.origin import initialise
from secmon.security.store.schema import users
from secmon.security.store.security_store import SecurityStore
from tests.cluster.record.kit import FIRST, SECOND, Record, RecordedNode, recorded_node

AUTHOR = Actor(user="ana", user_id=1, operation="test")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "one/audit.log"


def change(node: RecordedNode, log: Path) -> None:
    with audited(node.security, log, AUTHOR, SystemClock()) as transaction:
        transaction.next_id(users)


def follow(original: SecurityStore, folder: Path) -> None:
    """As a worker does: replication has the rows, not the end of the log."""
    folder.mkdir(exist_ok=True)
    replica = SecurityStore(folder / "security.db", writable=False)
    replica.apply_snapshot(original.snapshot())
    replica.close()


def take(store: Record, path: Path) -> Path | None:
    with store.engine.begin() as connection:
        return bring_log_up_to(connection, path, "aside")


def test_a_node_without_a_log_gets_all_of_it(node: RecordedNode, store: Record, log: Path, tmp_path: Path) -> None:
    change(node, log)
    change(node, log)
    copy = tmp_path / "two/audit/copy.log"
    assert take(store, copy) is None
    assert copy.read_bytes() == log.read_bytes()
    assert verify(copy).problem is None


def test_missing_lines_are_appended(node: RecordedNode, store: Record, log: Path, tmp_path: Path) -> None:
    change(node, log)
    copy = tmp_path / "copy.log"
    take(store, copy)
    inode = copy.stat().st_ino
    change(node, log)
    change(node, log)
    assert take(store, copy) is None
    assert (copy.read_bytes(), copy.stat().st_ino) == (log.read_bytes(), inode)
    assert take(store, copy) is None
    assert copy.read_bytes() == log.read_bytes()


@pytest.mark.parametrize("other", [b"", b"not a line\n", b"half"])
def test_another_log_is_kept_aside(node: RecordedNode, store: Record, log: Path, tmp_path: Path, other: bytes) -> None:
    change(node, log)
    copy = tmp_path / "copy.log"
    copy.write_bytes(other)
    kept = take(store, copy)
    assert kept == tmp_path / "copy.log.aside"
    assert kept.read_bytes() == other
    assert copy.read_bytes() == log.read_bytes()


def test_a_line_whose_change_was_never_made_is_kept_aside(
    node: RecordedNode, store: Record, log: Path, tmp_path: Path
) -> None:
    """As on a master that lost its term while it wrote, and comes back."""
    change(node, log)
    before = log.read_bytes()
    node.held = SECOND
    with pytest.raises(RecordFault):
        change(node, log)
    copy = tmp_path / "copy.log"
    copy.write_bytes(log.read_bytes())
    log.write_bytes(before)
    node.held = FIRST
    change(node, log)
    assert take(store, copy) is not None
    assert copy.read_bytes() == log.read_bytes()


def test_masters_one_after_another_continue_one_log(
    node: RecordedNode, store: Record, log: Path, tmp_path: Path
) -> None:
    written = audited(node.security, log, AUTHOR, SystemClock())
    passwords = {"admin_password": "Long-Enough-1", "dashboard_password": "Long-Enough-2"}
    initialise(node.security, **passwords, clock=SystemClock(), transaction=written)
    follow(node.security, tmp_path / "two")
    store.begin(SECOND)
    second_log = tmp_path / "two/audit.log"
    assert take(store, second_log) is None
    with recorded_node(tmp_path / "two", store, SECOND, first=False) as second:
        change(second, second_log)
        follow(second.security, node.folder)
    third = Term(3, "three", "node01", "127.0.0.1", 1516)
    store.begin(third)
    node.held = third
    assert take(store, log) is None
    node.take_over(store)
    change(node, log)
    copy = tmp_path / "copy.log"
    assert take(store, copy) is None
    assert copy.read_bytes() == log.read_bytes()
    assert verify(copy).problem is None
