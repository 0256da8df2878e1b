import gzip
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from secmon.common.logfile import AppendFile
from secmon.common.logfile.log_series import LogSeries
from secmon.common.logfile.rotation import compress_parts, rotate_size
from tests.filelimit import file_size_limit

_WRITER = """
import sys
from pathlib import Path
from secmon.common.logfile import AppendFile
path, name, last = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
file, number = AppendFile(path), 0
while number < 3000 or not last.exists():
    file.write(f"{name} {number} {'x' * (number % 300)}\\n".encode())
    number += 1
print(number)
"""
"""Appends 3,000 lines, and more until there is a file ``last``; prints how many."""

ROTATIONS = 2


def test_reopens_after_a_rename(tmp_path: Path) -> None:
    file = AppendFile(tmp_path / "log")
    file.write(b"one\n")
    os.rename(file.path, tmp_path / "old")
    file.write(b"two\n")
    assert file.size() == 4
    file.close()
    assert (tmp_path / "old").read_bytes() == b"one\n"
    assert (tmp_path / "log").read_bytes() == b"two\n"


def test_reopens_when_another_process_has_replaced_the_file(tmp_path: Path) -> None:
    file = AppendFile(tmp_path / "log")
    file.write(b"one\n")
    os.unlink(file.path)
    (tmp_path / "log").write_bytes(b"other\n")
    file.write(b"two\n")
    file.close()
    assert (tmp_path / "log").read_bytes() == b"other\ntwo\n"


def test_a_record_cut_by_a_full_disk_does_not_swallow_the_next(tmp_path: Path) -> None:
    file = AppendFile(tmp_path / "log")
    with file_size_limit(6), pytest.raises(OSError):
        file.write(b"0123456789\n")
    file.write(b"next\n")
    file.close()
    assert (tmp_path / "log").read_bytes() == b"012345\nnext\n"


def test_a_record_that_another_process_left_cut_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"whole\nhal")
    file = AppendFile(path)
    file.write(b"one\n")
    with path.open("ab") as other:
        other.write(b"cut")
    file.write(b"two\n")
    file.write(b"three\n")
    file.close()
    assert path.read_bytes() == b"whole\nhal\none\ncut\ntwo\nthree\n"


def test_processes_append_while_the_file_rotates(tmp_path: Path) -> None:
    """No line lost, none doubled, none torn, and each process's lines in their order."""
    names, last = ("a", "b", "c"), tmp_path / "last"
    series = LogSeries(tmp_path / "log", tmp_path / "archive", "log-")
    arguments = [sys.executable, "-c", _WRITER, str(series.current)]
    writers = [subprocess.Popen([*arguments, name, str(last)], stdout=subprocess.PIPE) for name in names]
    today = date(2026, 3, 5)
    while any(writer.poll() is None for writer in writers):
        rotate_size(series, today, 20_000)
        compress_parts(series)
        if len(series.parts()) > ROTATIONS:
            last.touch()
    counts = [int(writer.communicate()[0]) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    compress_parts(series)
    closed = [gzip.decompress(path.read_bytes()) for _, _, path in series.parts()]
    lines = b"".join([*closed, series.current.read_bytes() if series.current.exists() else b""]).decode().splitlines()
    for name, count in zip(names, counts, strict=True):
        own = [line for line in lines if line.startswith(name)]
        assert own == [f"{name} {number} {'x' * (number % 300)}" for number in range(count)]
    assert len(lines) == sum(counts)
