"""Compressed files: plain ones, damaged ones and bombs."""

import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.common.download import DownloadError, open_unpacked

LIMIT = 1000


@given(st.binary(max_size=LIMIT))
def test_what_is_packed_or_plain_is_read(content: bytes) -> None:
    assert open_unpacked(io.BytesIO(gzip.compress(content)), LIMIT).read() == content
    if not content.startswith(b"\x1f\x8b"):
        assert open_unpacked(io.BytesIO(content), LIMIT).read() == content


def test_lines_are_read_one_by_one() -> None:
    assert list(open_unpacked(io.BytesIO(gzip.compress(b"a\nb\n")), LIMIT)) == [b"a\n", b"b\n"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"x" * (LIMIT + 1), "more than 1000 bytes"),
        (gzip.compress(bytes(10 << 20), mtime=0), "more than 1000 bytes"),
        (gzip.compress(b"abc", mtime=0)[:-4], "not a whole gzip file"),
        (b"\x1f\x8bnothing of the kind", "not a whole gzip file"),
    ],
)
def test_what_is_refused(content: bytes, text: str) -> None:
    with pytest.raises(DownloadError, match=text):
        open_unpacked(io.BytesIO(content), LIMIT).read()


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        open_unpacked(io.BytesIO(b"\x1f\x8b" + content), LIMIT).read()
    except DownloadError:
        pass
