"""Checking the audit log: against itself, against the security store, against lines known from elsewhere."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.security.audit import NO_PREVIOUS_HASH, line_hash, read_line
from secmon.security.audit_check import AuditReport, check_end, verify, verify_lines
from secmon.security.role_changes import create_role
from secmon.security.store.position import AuditEnd
from secmon.security.store.security_store import SecurityStore
from tests.security.audited import CLOCK, crash_while_making, lines, make


@pytest.fixture
def chain(store: SecurityStore, path: Path) -> list[bytes]:
    """An anchor and six changes."""
    for number in range(6):
        make(store, path, f"role{number}")
    return lines(path)


Damage = Callable[[list[bytes]], list[bytes]]


def _altered(number: int) -> Damage:
    return lambda whole: [one.replace(b"alice", b"mallo") if at == number else one for at, one in enumerate(whole)]


DAMAGES: dict[str, tuple[Damage, int, str]] = {
    "altered": (_altered(3), 4, "altered"),
    "last one altered": (_altered(6), 7, "altered"),
    "removed": (lambda whole: whole[:3] + whole[4:], 4, "a line is missing"),
    "three removed": (lambda whole: whole[:2] + whole[5:], 3, "3 lines are missing"),
    "first removed": (lambda whole: whole[1:], 1, "the beginning of the log is missing: line 1 is gone"),
    "beginning removed": (lambda whole: whole[3:], 1, "lines 1 to 3 are gone"),
    "beginning removed, then altered": (lambda whole: _altered(5)(whole)[3:], 3, "altered"),
    "swapped": (lambda whole: [*whole[:3], whole[4], whole[3], *whole[5:]], 4, "a line is missing"),
    "repeated": (lambda whole: [*whole[:4], whole[3], *whole[4:]], 5, "does not continue"),
    "overwritten": (lambda whole: [*whole[:3], b"x" * 40 + b"\n", *whole[4:]], 4, "not a whole line"),
    "inserted": (lambda whole: [*whole[:3], b"{}\n", *whole[3:]], 4, "not a whole line"),
    "end overwritten": (lambda whole: [*whole[:6], b"x\n"], 7, "not a whole line"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_the_first_bad_line_is_named(chain: list[bytes], name: str) -> None:
    damage, line, text = DAMAGES[name]
    report = verify_lines(damage(chain))
    assert report.problem is not None
    assert (report.problem.line, text in report.problem.text) == (line, True), report.problem


def test_any_damage_but_a_shorter_end_is_found(chain: list[bytes]) -> None:
    content = b"".join(chain)

    @settings(max_examples=200)
    @given(st.integers(0, len(content) - 2), st.integers(0, 255))
    def run(position: int, value: int) -> None:
        damaged = content[:position] + bytes([value]) + content[position + 1 :]
        report = verify_lines(damaged.splitlines(keepends=True))
        assert (report.problem is None) == (damaged == content)

    run()


def test_a_shorter_end_shows_against_the_store(chain: list[bytes], store: SecurityStore) -> None:
    report = verify_lines(chain[:-2])
    assert report.problem is None
    check_end(report, store.store_id(), store.revision())
    assert report.problem is not None
    assert report.problem.line == 6
    assert f"{store.revision() - 1} to {store.revision()} are missing" in report.problem.text


def test_the_end_and_the_store_agree(chain: list[bytes], store: SecurityStore) -> None:
    report = verify_lines(chain)
    check_end(report, store.store_id(), store.revision())
    assert report.problem is None
    check_end(report, "another", store.revision())
    assert report.problem is not None


def test_an_empty_log_is_right_only_for_a_new_store() -> None:
    new, old = AuditReport(), AuditReport()
    check_end(new, "s", 1)
    check_end(old, "s", 2)
    assert new.problem is None
    assert old.problem is not None


# The store knows the end


def rewrite(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """As an attacker who can write the log but not the store: every hash is right in itself."""
    text, before = b"", NO_PREVIOUS_HASH
    for raw in change(lines(path)):
        found = read_line(raw.rstrip(b"\n"))
        assert found is not None
        body = msgspec.json.encode(msgspec.structs.replace(found[0], prev=before))
        before = line_hash(body)
        text += body[:-1] + b',"hash":"' + before.encode() + b'"}\n'
    path.write_bytes(text)


def checked(store: SecurityStore, path: Path) -> AuditReport:
    end = store.audit_end()
    assert end is not None
    return verify(path, [end])


def replaced(whole: list[bytes]) -> list[bytes]:
    return [one.replace(b"alice", b"mallo") for one in whole]


def delete(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(b"".join(lines(path)[:-2]))


def forge(path: Path) -> None:
    rewrite(path, replaced)


@pytest.mark.parametrize("later", [False, True], ids=["at once", "after another change"])
@pytest.mark.parametrize(
    ("harm", "text"),
    [(delete, "beginning of the log is missing: lines 1 to 4"), (cut, "2 lines are missing"), (forge, "")],
)
def test_a_log_that_was_cut_deleted_or_replaced(
    store: SecurityStore, path: Path, harm: Callable[[Path], None], text: str, later: bool
) -> None:
    for number in range(3):
        make(store, path, f"role{number}")
    assert checked(store, path).problem is None
    harm(path)
    if later:
        make(store, path, "later")
        make(store, path, "last")
        problem = checked(store, path).problem
        assert problem is not None
        assert text in problem.text or harm is forge
    elif path.exists():
        assert checked(store, path).problem is not None


def test_lines_after_a_lost_log_are_a_chain(store: SecurityStore, path: Path) -> None:
    for number in range(3):
        make(store, path, f"role{number}")
    path.unlink()
    crash_while_making(store, path, "never")
    make(store, path, "later")
    report = checked(store, path)
    assert (report.missing, report.voided, report.revision) == (4, 1, store.revision())
    assert report.problem is not None
    assert report.problem.text.endswith("the rest is whole")


def test_the_end_is_committed_with_its_change(store: SecurityStore, path: Path) -> None:
    make(store, path, "first")
    before = store.audit_end()
    crash_while_making(store, path, "never")
    assert store.audit_end() == before
    assert checked(store, path).problem is None
    make(store, path, "second")
    last = json.loads(lines(path)[-1])
    assert store.audit_end() == (last["seq"], last["hash"])
    assert checked(store, path).problem is None


def test_an_anchor_outlives_both_files(store: SecurityStore, path: Path) -> None:
    """An attacker who can write log and store forges a chain that fits; not the line that was logged elsewhere."""
    make(store, path, "first")
    anchor = store.audit_end()
    assert anchor is not None
    make(store, path, "second")
    assert verify(path, [anchor]).problem is None
    forge(path)
    last = json.loads(lines(path)[-1])
    with store.write() as tx:
        tx.set_audit_end(AuditEnd(last["seq"], last["hash"]))
        create_role(tx, "noise", CLOCK)
    assert checked(store, path).problem is None
    problem = verify(path, [anchor]).problem
    assert problem is not None
    assert (problem.line, "rewritten" in problem.text) == (anchor.seq, True)


@given(st.integers(1, 10**9), st.binary(min_size=32, max_size=32))
def test_anchors_are_read_as_they_are_written(seq: int, digest: bytes) -> None:
    end = AuditEnd(seq, digest.hex())
    assert AuditEnd.parse(str(end)) == end


@pytest.mark.parametrize("text", ["", "1", "0:" + "0" * 64, "-1:" + "0" * 64, "1:" + "0" * 63, "1:" + "G" * 64])
def test_invalid_anchors(text: str) -> None:
    with pytest.raises(ValueError, match="SEQ:HASH"):
        AuditEnd.parse(text)


def test_changes_beside_the_log_show(store: SecurityStore, path: Path) -> None:
    make(store, path, "first")
    with store.write() as tx:
        create_role(tx, "secretly", CLOCK)
    make(store, path, "second")
    problem = verify(path).problem
    assert problem is not None
    revision = store.revision() - 1
    assert f"the change to revision {revision} is missing" in problem.text
