"""The audit log: one line per change, before it happens; nothing can be altered or removed unnoticed."""

import json
import os
from pathlib import Path

import pytest

from secmon.common.errors import SecmonError
from secmon.security.audit import audited_write
from secmon.security.audit_check import verify
from secmon.security.origin import initialise
from secmon.security.role_changes import create_role
from secmon.security.store.security_store import SecurityStore
from secmon.security.store.transaction import WriteTransaction
from secmon.security.user_changes import set_password
from tests.security.audited import ALICE, CLOCK, crash_while_making, lines, make
from tests.security.conftest import PASSWORD


def test_a_line_has_user_operation_and_changes(store: SecurityStore, path: Path) -> None:
    make(store, path, "night")
    anchor, change = map(json.loads, lines(path))
    assert (anchor["kind"], anchor["seq"], anchor["prev"]) == ("anchor", 1, "0" * 64)
    assert anchor["revision"] == store.revision() - 1
    assert (change["kind"], change["seq"], change["prev"]) == ("change", 2, anchor["hash"])
    assert (change["store"], change["revision"]) == (store.store_id(), store.revision())
    assert change["time"] == "2026-01-01T00:00:00.000000Z"
    assert change["by"] == {
        "user": "alice",
        "user_id": 104,
        "operation": "POST /security/roles",
        "client": "10.0.0.7",
        "request": "r1",
    }
    assert change["changes"] == [{"table": "roles", "key": [102], "row": {"id": 102, "name": "night"}}]


def test_secrets_are_not_logged(tmp_path: Path, path: Path) -> None:
    store = SecurityStore(tmp_path / "new.db")
    initialise(store, admin_password=PASSWORD, dashboard_password=PASSWORD, clock=CLOCK)
    audited_write(store, path, ALICE, lambda tx: set_password(tx, 1, "Another-1-secret", CLOCK), CLOCK)
    text = path.read_text()
    user = store.view().user("admin")
    assert user is not None
    assert user.password not in text
    assert "Another-1-secret" not in text
    assert "argon2" not in text
    change = json.loads(lines(path)[-1])["changes"]
    assert [one["table"] for one in change] == ["users", "revocations"]
    assert change[0]["row"] == {"id": 1, "username": "admin", "allow_run_as": True}
    store.close()


def test_a_transaction_without_changes_writes_no_line(store: SecurityStore, path: Path) -> None:
    audited_write(store, path, ALICE, lambda tx: tx.settings(), CLOCK)
    assert not path.exists()


def test_a_failed_transaction_writes_no_line(store: SecurityStore, path: Path) -> None:
    def fail(tx: WriteTransaction) -> None:
        create_role(tx, "night", CLOCK)
        raise SecmonError(5001)

    with pytest.raises(SecmonError):
        audited_write(store, path, ALICE, fail, CLOCK)
    assert not path.exists()


def test_a_change_that_cannot_be_logged_is_refused(store: SecurityStore, path: Path) -> None:
    path.mkdir(parents=True)
    before = store.revision()
    with pytest.raises(SecmonError, match=r"1005.*nothing was changed"):
        make(store, path, "night")
    assert store.revision() == before
    assert "night" not in {role.name for role in store.view().roles.values()}


def test_no_room_on_the_disk(store: SecurityStore, path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/full")
    before = store.revision()
    with pytest.raises(SecmonError, match="1021"):
        make(store, path, "night")
    assert store.revision() == before


def test_the_log_is_not_world_readable(store: SecurityStore, path: Path) -> None:
    old = os.umask(0)
    try:
        make(store, path, "night")
    finally:
        os.umask(old)
    assert oct(path.stat().st_mode & 0o777) == "0o640"
    assert oct(path.parent.stat().st_mode & 0o777) == "0o750"


def test_several_processes_write_one_chain(store: SecurityStore, path: Path) -> None:
    other = SecurityStore(store.path)
    for number in range(6):
        make(other if number % 2 else store, path, f"role{number}")
    other.close()
    report = verify(path)
    assert (report.problem, report.changes, report.lines, report.begun) == (None, 6, 7, 1)
    assert (report.store, report.revision) == (store.store_id(), store.revision())


def test_an_uncommitted_change_is_voided(store: SecurityStore, path: Path) -> None:
    make(store, path, "first")
    before = store.revision()
    crash_while_making(store, path, "never")
    assert store.revision() == before
    assert verify(path).revision == before + 1
    make(store, path, "second")
    assert [json.loads(one)["kind"] for one in lines(path)] == ["anchor", "change", "change", "void", "change"]
    report = verify(path)
    assert (report.problem, report.voided, report.revision) == (None, 1, store.revision())


@pytest.mark.parametrize(
    "rest", [b"{", b'{"seq":9', b"\0" * 300, b"\0\0\n", b"x\ny", b"\n", b"\nx\n\n"], ids=lambda rest: repr(rest[:8])
)
def test_a_torn_line_is_reported(store: SecurityStore, path: Path, rest: bytes) -> None:
    make(store, path, "first")
    with path.open("ab") as file:
        file.write(rest)
    make(store, path, "second")
    make(store, path, "third")
    report = verify(path)
    assert (report.problem, report.torn, report.changes) == (None, 1, 3)
    assert report.revision == store.revision()


def test_a_log_without_a_whole_line(store: SecurityStore, path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"seq":1,"pre')
    make(store, path, "first")
    assert [json.loads(one)["kind"] for one in lines(path)[1:]] == ["torn", "anchor", "change"]
    assert verify(path).problem is None


def test_a_line_whose_line_feed_is_missing_counts(store: SecurityStore, path: Path) -> None:
    make(store, path, "first")
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    make(store, path, "second")
    report = verify(path)
    assert (report.problem, report.changes, report.torn) == (None, 2, 0)


def test_an_unfinished_last_line_is_valid(store: SecurityStore, path: Path) -> None:
    make(store, path, "first")
    before = path.read_bytes()
    make(store, path, "zweite-Übernahme 1.5")
    last = path.read_bytes()[len(before) :]
    for length in range(1, len(last) - 1):
        path.write_bytes(before + last[:length])
        report = verify(path)
        assert (report.problem, report.unfinished) == (None, True), last[:length]


@pytest.mark.parametrize(
    "junk", [b"x", b"\0" * 4096, b'{"seq":4', b'{"seq":3,"prev":"x', b"{}", b"not a line of this log " * 100_000]
)
def test_other_bytes_after_the_last_line_are_found(store: SecurityStore, path: Path, junk: bytes) -> None:
    make(store, path, "first")
    with path.open("ab") as file:
        file.write(junk)
    problem = verify(path).problem
    assert problem is not None
    assert (problem.line, problem.text) == (3, f"{len(junk)} bytes after the last line do not belong to this log")


@pytest.mark.parametrize("junk", [b"\xff\xfe", b"x" * 1_000_000, b'"changes":}', b"\0"])
def test_other_bytes_after_a_line_that_was_cut_are_found(store: SecurityStore, path: Path, junk: bytes) -> None:
    make(store, path, "first")
    before = path.read_bytes()
    make(store, path, "second")
    path.write_bytes(path.read_bytes()[: len(before) + 100] + junk)
    assert verify(path).problem is not None


def test_long_lines_are_found_from_the_end(store: SecurityStore, path: Path) -> None:
    def many(tx: WriteTransaction) -> None:
        for number in range(2500):
            create_role(tx, f"a-role-with-a-name-{number}", CLOCK)

    make(store, path, "first")
    audited_write(store, path, ALICE, many, CLOCK)
    assert len(lines(path)[-1]) > 3 * (1 << 16)
    make(store, path, "last")
    assert verify(path).problem is None


def test_a_restored_store_begins_a_new_chain(store: SecurityStore, path: Path) -> None:
    for number in range(3):
        make(store, path, f"role{number}")
    copy = store.path.with_name("copy.db")
    restored = SecurityStore(copy)
    initialise(restored, admin_password=PASSWORD, dashboard_password=PASSWORD, clock=CLOCK)
    make(restored, path, "night")
    report = verify(path)
    assert (report.problem, report.begun, report.store) == (None, 2, restored.store_id())
    restored.close()
