"""Installation and removal of files in real folders, without a cluster."""

import os
import threading
from pathlib import Path

import pytest

from secmon.common.errors import SecmonError
from secmon.worker.install_files import FileInstaller
from secmon.worker.staging import FileOwner
from tests.common.files.folders import write


def test_readers_see_the_old_content_or_the_new(tmp_path: Path) -> None:
    installer = FileInstaller(tmp_path, FileOwner())
    contents = [bytes([65 + number]) * 50_000 for number in range(20)]
    target = write(tmp_path, "etc/rules/r", contents[0])
    seen: set[bytes] = set()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.add(target.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for content in contents[1:]:
        installer.install("etc/rules/r", write(tmp_path, "aside", content))
    installer.sync()
    stop.set()
    reader.join()
    assert seen <= set(contents)
    assert target.read_bytes() == contents[-1]


@pytest.mark.parametrize("path", ["etc/ossec.conf", "../x", "etc/rules/../ossec.conf", "api/x"])
def test_nothing_is_installed_or_removed_elsewhere(tmp_path: Path, path: str) -> None:
    (tmp_path / "root/etc/rules").mkdir(parents=True)
    installer = FileInstaller(tmp_path / "root", FileOwner())
    staged = write(tmp_path, "staged", b"1")
    with pytest.raises(SecmonError):
        installer.install(path, staged)
    with pytest.raises(SecmonError):
        installer.remove(path)
    assert staged.exists()


def test_a_removal_does_not_follow_links(tmp_path: Path) -> None:
    outside = write(tmp_path, "outside/f", b"1")
    root = tmp_path / "root"
    (root / "etc/shared").mkdir(parents=True)
    (root / "etc/shared/g").symlink_to(outside.parent)
    FileInstaller(root, FileOwner()).remove("etc/shared/g/f")
    assert outside.exists()
    assert (root / "etc/shared/g").is_symlink()


def test_a_folder_with_other_files_is_kept(tmp_path: Path) -> None:
    for path in ("etc/shared/g/sub/f", "etc/shared/g/sub/ar.conf", "etc/shared/g/x.tmp"):
        write(tmp_path, path, b"1")
    (tmp_path / "etc/shared/g/link").symlink_to("/nowhere")
    installer = FileInstaller(tmp_path, FileOwner())
    installer.remove("etc/shared/g/sub/f")
    installer.remove("etc/shared/g/never-was")
    installer.sync()
    assert sorted(path.name for path in (tmp_path / "etc/shared/g").iterdir()) == ["link", "x.tmp"]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_new_folders_have_the_owner_of_replicated_files(tmp_path: Path) -> None:
    write(tmp_path, "etc/shared/old", b"")
    FileInstaller(tmp_path, FileOwner(1234, 2345)).install("etc/shared/new/er/f", write(tmp_path, "staged", b"1"))
    for path in ("etc/shared/new", "etc/shared/new/er"):
        status = (tmp_path / path).stat()
        assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (1234, 2345, 0o770)
    assert (tmp_path / "etc/shared").stat().st_uid == 0
