"""Scanning real folders."""

import hashlib
import logging
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.clock import SystemClock
from secmon.common.files.scan import Scanner
from tests.common.files.folders import edit, edits, new_root, write
from tests.manual_clock import ManualClock


def settled_clock() -> ManualClock:
    """A clock at which files written now are no longer racy."""
    return ManualClock(SystemClock().now() + timedelta(seconds=10))


def test_finds_exactly_the_replicated_files(tmp_path: Path) -> None:
    for path in (
        "etc/decoders/keys",
        "etc/ossec.conf",
        "etc/shared/g/agent.conf",
        "etc/shared/g/ar.conf",
        "etc/rules/deep/er/x.xml",
        "etc/lists/a.cdb",
        "etc/lists/a.tmp",
        "var/multigroups/1/merged.mg",
        "var/multigroups/1/other",
    ):
        write(tmp_path, path, path.encode())
    scanner = Scanner(tmp_path, clock=SystemClock())
    delta = scanner.rescan()
    assert (
        set(delta)
        == set(scanner.manifest)
        == {
            "etc/decoders/keys",
            "etc/shared/g/agent.conf",
            "etc/rules/deep/er/x.xml",
            "etc/lists/a.cdb",
            "var/multigroups/1/merged.mg",
        }
    )
    entry = scanner.manifest.get("etc/decoders/keys")
    assert entry is not None
    assert entry.hash == hashlib.blake2b(b"etc/decoders/keys", digest_size=32).digest()
    assert entry.size == 17


def test_an_unchanged_file_is_hashed_once(tmp_path: Path) -> None:
    for number in range(200):
        write(tmp_path, f"etc/shared/g{number % 7}/{number}", b"x")
    scanner = Scanner(tmp_path, clock=settled_clock())
    scanner.rescan()
    assert scanner.hashed == 200
    assert scanner.rescan() == {}
    assert scanner.rescan_paths(["etc/shared/g1/1", "etc/shared/g2"]) == {}
    assert scanner.hashed == 200


def test_a_rewrite_within_one_modification_time_is_noticed(tmp_path: Path) -> None:
    file = write(tmp_path, "etc/rules/a.xml", b"old")
    scanner = Scanner(tmp_path, clock=settled_clock())
    scanner.rescan()
    before = file.stat()
    file.write_bytes(b"new")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert list(scanner.rescan()) == ["etc/rules/a.xml"]


def test_a_file_changed_just_now_is_always_hashed(tmp_path: Path) -> None:
    write(tmp_path, "etc/rules/a.xml", b"old")
    scanner = Scanner(tmp_path, clock=SystemClock())
    scanner.rescan()
    scanner.rescan()
    assert scanner.hashed == 2


def test_links_and_special_files_are_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outside = tmp_path / "secret"
    outside.mkdir()
    (outside / "shadow").write_bytes(b"root")
    write(tmp_path, "etc/shared/g/real", b"1")
    (tmp_path / "etc/shared/g/link").symlink_to(outside / "shadow")
    (tmp_path / "etc/shared/folder").symlink_to(outside)
    os.mkfifo(tmp_path / "etc/shared/g/pipe")
    scanner = Scanner(tmp_path, clock=SystemClock())
    with caplog.at_level(logging.WARNING):
        scanner.rescan()
        scanner.rescan()
    assert list(scanner.manifest) == ["etc/shared/g/real"]
    assert scanner.skipped == {"etc/shared/g/link", "etc/shared/folder", "etc/shared/g/pipe"}
    assert len(caplog.records) == 3
    assert scanner.rescan_paths(["etc/shared/folder/shadow", "etc/shared/g/link"]) == {}


def test_a_category_folder_that_is_a_link_is_not_entered(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"1")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/rules").symlink_to(outside)
    scanner = Scanner(tmp_path, clock=SystemClock())
    assert scanner.rescan() == {}
    assert "etc/rules" in scanner.skipped


def test_a_file_that_becomes_a_link_is_gone(tmp_path: Path) -> None:
    file = write(tmp_path, "etc/rules/a.xml", b"1")
    scanner = Scanner(tmp_path, clock=SystemClock())
    scanner.rescan()
    file.unlink()
    file.symlink_to("/etc/passwd")
    assert scanner.rescan_paths(["etc/rules/a.xml"]) == {"etc/rules/a.xml": None}


def test_names_that_are_not_text_are_skipped(tmp_path: Path) -> None:
    folder = tmp_path / "etc/rules"
    folder.mkdir(parents=True)
    Path(os.fsdecode(os.fsencode(folder) + b"/bad-\xff")).write_bytes(b"1")
    scanner = Scanner(tmp_path, clock=SystemClock())
    assert scanner.rescan() == {}
    assert len(scanner.skipped) == 1


def test_folders_and_files_change_places(tmp_path: Path) -> None:
    write(tmp_path, "etc/rules/a/one", b"1")
    scanner = Scanner(tmp_path, clock=SystemClock())
    scanner.rescan()
    (tmp_path / "etc/rules/a/one").unlink()
    (tmp_path / "etc/rules/a").rmdir()
    write(tmp_path, "etc/rules/a", b"file")
    delta = scanner.rescan_paths(["etc/rules/a"])
    assert delta.keys() == {"etc/rules/a", "etc/rules/a/one"}
    assert delta["etc/rules/a/one"] is None
    (tmp_path / "etc/rules/a").unlink()
    write(tmp_path, "etc/rules/a/two", b"2")
    assert scanner.rescan_paths(["etc/rules/a"]).keys() == {"etc/rules/a", "etc/rules/a/two"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_files_do_not_count_as_deleted(tmp_path: Path) -> None:
    file = write(tmp_path, "etc/shared/g/a", b"1")
    scanner = Scanner(tmp_path, clock=SystemClock())
    scanner.rescan()
    file.parent.chmod(0)
    try:
        assert scanner.rescan() == {}
    finally:
        file.parent.chmod(0o700)
    assert "etc/shared/g/a" in scanner.manifest


def test_after_a_clock_is_set_back_files_are_hashed_again(tmp_path: Path) -> None:
    write(tmp_path, "etc/rules/a", b"1")
    scanner = Scanner(tmp_path, clock=ManualClock(datetime(2001, 1, 1, tzinfo=UTC)))
    scanner.rescan()
    assert scanner.rescan() == {}
    assert scanner.hashed == 2


@settings(max_examples=60)
@given(st.lists(st.lists(edits, max_size=4), max_size=6))
def test_scans_of_the_touched_paths_equal_a_scan_of_all(rounds: list[list[tuple[str, str, bytes]]]) -> None:
    with new_root() as root:
        scanner = Scanner(root, clock=SystemClock())
        for steps in rounds:
            touched: set[str] = set()
            for step in steps:
                touched |= edit(root, *step)
            scanner.rescan_paths(touched)
        fresh = Scanner(root, clock=SystemClock())
        fresh.rescan()
        assert scanner.manifest.entries() == fresh.manifest.entries()
        assert scanner.manifest.digest == fresh.manifest.digest
