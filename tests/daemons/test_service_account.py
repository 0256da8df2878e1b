"""Daemons that run as the service user, and what that user can read and change."""

import json
import os
import stat
from pathlib import Path

import pytest

from secmon.common.privileges import Account, find_account
from secmon.daemons.service_user import first_unreadable, is_reserved_for_root, share
from tests.daemons.conftest import ToyNode
from tests.waiting import wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change users")
USER = "nobody"


@pytest.fixture
def nobody() -> Account:
    account = find_account(USER)
    if account is None:
        pytest.skip(f"this host has no user {USER}")
    return account


@pytest.mark.root
@needs_root
def test_daemons_of_a_node_run_as_the_service_user(node: ToyNode, nobody: Account) -> None:
    (node.root / "settings.json").write_text(json.dumps({"user": USER}))
    (node.root / "journal").touch()
    os.chmod(node.root / "journal", 0o666)
    os.chmod(node.root, 0o755)
    for folder in (node.paths.run, node.paths.sockets, node.paths.logs):
        os.chown(folder, 0, nobody.gid)
        os.chmod(folder, 0o770)
    node.start()
    counters = node.ask_daemon("secmon-apid", "counters")
    assert (counters["uid"], counters["builder"]) == (nobody.uid, 0)
    assert node.ask_daemon("secmon-clusterd", "counters")["builder"] == nobody.uid
    assert 0 not in counters["groups"]
    assert node.state("secmon-apid") == "running"
    control = node.paths.control_socket.stat()
    assert (stat.S_IMODE(control.st_mode), control.st_gid) == (0o660, nobody.gid)
    pid = node.pid("secmon-apid")
    assert pid is not None
    os.kill(pid, 9)
    wait_until(lambda: node.pid("secmon-apid") != pid and node.state("secmon-apid") == "running", "it is back")
    assert node.ask_daemon("secmon-apid", "counters")["uid"] == nobody.uid
    assert node.end() == 0
    assert node.leftovers() == []


@pytest.mark.root
@needs_root
def test_shared_files_get_the_group(tmp_path: Path, nobody: Account) -> None:
    file = tmp_path / "file"
    file.touch()
    share(file, 0o640, nobody)
    found = file.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (0, nobody.gid, 0o640)


def test_closed_folders_are_found_by_their_mode(root: Path) -> None:
    file = root / "a/b/file"
    file.parent.mkdir(parents=True)
    file.touch()
    status = root.stat()
    owner = Account("owner", status.st_uid, status.st_gid, (status.st_gid,), "/")
    member = Account("member", 54321, 54321, (54321, status.st_gid), "/")
    other = Account("other", 54321, 54321, (54321,), "/")
    root.chmod(0o755)
    for mode, closed in ((0o755, ()), (0o750, (other,)), (0o700, (other, member))):
        (root / "a").chmod(mode)
        for account in (owner, member, other):
            assert first_unreadable(account, file) == (root / "a" if account in closed else None)
    (root / "a").chmod(0o755)
    file.chmod(0o640)
    assert first_unreadable(other, file) == file
    assert first_unreadable(member, file) is None


@pytest.mark.root
@needs_root
def test_who_owns_a_folder_on_the_way_is_never_kept_out(root: Path) -> None:
    account = Account("user", 54321, 54321, (54321,), "/")
    folder = root / "a/b"
    folder.mkdir(parents=True)
    root.chmod(0o755)
    assert not is_reserved_for_root(account, folder)
    (root / "a").chmod(0o700)
    assert is_reserved_for_root(account, folder)
    os.chown(root / "a", 54321, 54321)
    for mode in (0o700, 0o070, 0o000):
        (root / "a").chmod(mode)
        assert not is_reserved_for_root(account, folder)
    os.chown(root / "a", 0, 0)
    os.chown(folder, 54321, 54321)
    assert not is_reserved_for_root(account, folder)
    os.chown(folder, 0, 0)
    (root / "link").symlink_to(folder)
    assert is_reserved_for_root(account, root / "link")
    os.chown(root / "link", 54321, 54321, follow_symlinks=False)
    assert not is_reserved_for_root(account, root / "link")


def test_without_an_account_only_the_mode_changes(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    before = file.stat()
    share(file, 0o600, None)
    assert (file.stat().st_gid, stat.S_IMODE(file.stat().st_mode)) == (before.st_gid, 0o600)
