"""The size of an archive's directory is known before it is read."""

import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.knowledge.vulnerabilities import feed_files
from secmon.knowledge.vulnerabilities.feed_files import records_in_file
from secmon.knowledge.vulnerabilities.records import FeedError
from secmon.knowledge.vulnerabilities.zip_directory import directory_bytes
from tests.knowledge.vulnerabilities.records import archive


def stated(content: bytes) -> int:
    return directory_bytes(io.BytesIO(content))


def test_of_archives_with_and_without_a_comment() -> None:
    plain = archive({"a.json": b"{}"})
    assert stated(plain) == 46 + len("a.json")
    buffer = io.BytesIO(plain)
    with zipfile.ZipFile(buffer, "a") as file:
        file.comment = b"a comment"
    assert stated(buffer.getvalue()) == stated(plain)
    assert stated(b"") == stated(b"PK") == stated(b"x" * 100_000) == 0


def test_of_an_archive_with_64_bits() -> None:
    """zipfile writes such an end where there are more members than 16 bits can count."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for number in range(65_536):
            file.writestr(f"{number:05}", b"")
    assert stated(buffer.getvalue()) == 65_536 * (46 + 5)


@given(st.binary(max_size=200))
def test_any_bytes(content: bytes) -> None:
    assert stated(content) >= 0
    assert stated(archive({}) + content) >= 0


def test_a_directory_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_files, "MAX_DIRECTORY", 100)
    content = archive({f"{number}.json": b"{}" for number in range(10)})
    with pytest.raises(FeedError, match="its directory has more than"):
        list(records_in_file(io.BytesIO(content)))
