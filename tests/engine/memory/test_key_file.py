"""First-time keys on disk: they are read as they were written, with any content, and after an incomplete line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.engine.memory.key_file import KeyFile
from tests.filelimit import file_size_limit

KEYS = st.lists(st.binary(min_size=1, max_size=20).map(lambda key: key.replace(b"\n", b" ")), max_size=6, unique=True)


@given(KEYS, KEYS)
def test_keys_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, first: list[bytes], then: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("keys") / "fts-queue"
    for some in (first, then):
        file = KeyFile(path)
        for key in some:
            file.append(key)
        file.flush()
    assert KeyFile(path).lines() == first + then


def test_a_key_that_was_cut_does_not_glue_to_the_next(tmp_path: Path) -> None:
    path = tmp_path / "fts-queue"
    path.write_bytes(b"one\ntw")
    file = KeyFile(path)
    file.append(b"three")
    with file_size_limit(8), pytest.raises(OSError):
        file.flush()
    assert path.read_bytes() == b"one\ntw"
    file.flush()
    assert KeyFile(path).lines() == [b"one", b"tw", b"three"]
