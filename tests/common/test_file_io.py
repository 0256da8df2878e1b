"""Files are replaced whole or not at all."""

import os
from pathlib import Path

import pytest

from secmon.common.file_io import write_file


def test_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_file(path, b"one")
    write_file(path, b"two", 0o600)
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o7777 == 0o600
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("mode", [0o400, 0o640, 0o660, 0o666])
def test_mode_holds_whatever_the_umask_is(tmp_path: Path, mode: int) -> None:
    before = os.umask(0o077)
    try:
        write_file(tmp_path / "f", b"", mode)
    finally:
        os.umask(before)
    assert (tmp_path / "f").stat().st_mode & 0o7777 == mode


def test_a_reader_keeps_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_file(path, b"old")
    with path.open("rb") as reader:
        write_file(path, b"new")
        assert reader.read() == b"old"


def test_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    with pytest.raises(OSError):
        write_file(tmp_path / "f", b"data")
    assert os.listdir(tmp_path) == ["f"]


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_file(tmp_path / "none/f", b"data")


def test_a_symbolic_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"target")
    (tmp_path / "f").symlink_to("target")
    write_file(tmp_path / "f", b"data")
    assert not (tmp_path / "f").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"target"


def test_long_names(tmp_path: Path) -> None:
    write_file(tmp_path / ("x" * 255), b"data")
    assert os.listdir(tmp_path) == ["x" * 255]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="ownership needs root")
def test_owner(tmp_path: Path) -> None:
    write_file(tmp_path / "f", b"", 0o640, 12345, 23456)
    status = (tmp_path / "f").stat()
    assert (status.st_uid, status.st_gid) == (12345, 23456)
