"""A node's copy of the audit log, made from the store of record."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from secmon.cluster.record.audit_record import bring_log_up_to
from secmon.cluster.record.engine import RecordAddress
from secmon.common.clock import SystemClock
from secmon.common.sqlite.faults import RecordFault
from secmon.security.audit import Actor, audited
from secmon.security.audit_check import verify
from secmon.security.store.schema import users
from tests.cluster.record.kit import FIRST, Record, RecordedNode, recorded_node
from tests.cluster.record.test_recorder import SECOND

AUTHOR = Actor(user="ana", user_id=1, operation="test")


@pytest.fixture
def store(record: RecordAddress) -> Iterator[Record]:
    opened = Record(record)
    yield opened
    opened.close()


@pytest.fixture
def node(store: Record, tmp_path: Path) -> Iterator[RecordedNode]:
    with recorded_node(tmp_path / "one", store) as opened:
        yield opened


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "one/audit.log"


def change(node: RecordedNode, log: Path) -> None:
    with audited(node.security, log, AUTHOR, SystemClock()) as transaction:
        transaction.next_id(users)


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
