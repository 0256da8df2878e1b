"""What a record that was cut lacks."""

import os
from pathlib import Path

import pytest

from secmon.common.logfile.line_ends import missing_end


@pytest.mark.parametrize(
    ("content", "ending", "missing"),
    [
        (b"", b"\n", b""),
        (b"one\n", b"\n", b""),
        (b"one\ntw", b"\n", b"\n"),
        (b"x", b"\n\n", b"\n\n"),
        (b"one\n\n", b"\n\n", b""),
        (b"one\n\ntwo\n", b"\n\n", b"\n"),
        (b"\n", b"\n\n", b"\n"),
    ],
)
def test_what_is_missing(tmp_path: Path, content: bytes, ending: bytes, missing: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    file = os.open(path, os.O_RDONLY)
    try:
        assert missing_end(file, ending) == missing
    finally:
        os.close(file)
