"""Lines of lists and of their expiry files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.engine.catalogue.list_entries import read_entries as read_as_the_api
from secmon.knowledge.lists.list_text import (
    Entry,
    moment_of,
    read_entries,
    read_expiries,
    read_line,
    write_entries,
    write_line,
)

TEXTS = st.text(st.characters(exclude_characters='"\r\n', exclude_categories=["Cs", "Cc"]), max_size=30).map(str.encode)
KEYS = TEXTS.filter(lambda key: bool(key.strip()) and b"TEMPLATE" not in key)


@given(KEYS, TEXTS)
def test_a_line_is_read_as_it_was_written(key: bytes, value: bytes) -> None:
    line = write_line(key, value)
    assert read_line(line.removesuffix(b"\n")) == (key, value)
    if not value or value.strip():
        assert read_as_the_api(line) == {key.decode(): value.decode()}


@pytest.mark.parametrize(
    ("key", "value"), [(b"", b"v"), (b'a"b', b""), (b"a", b"b\nc"), (b"a\r", b""), (b"a" * 65530, b"12345")]
)
def test_what_cannot_be_written_is_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        write_line(key, value)


@given(st.dictionaries(KEYS, st.tuples(TEXTS, st.none() | st.integers(0, 4_000_000_000))))
def test_entries_are_read_as_they_were_written(wanted: dict[bytes, tuple[bytes, int | None]]) -> None:
    entries = {key: Entry(key, *rest) for key, rest in wanted.items()}
    assert read_entries(*write_entries(entries.values())) == entries
    assert write_entries(reversed(entries.values())) == write_entries(entries.values())


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1790000000", 1790000000),
        ("2026-09-21T14:13:20Z", 1790000000),
        ("2026-09-21T16:13:20+02:00", 1790000000),
        ("2026-09-21 14:13:20", 1790000000),
        ("2026-09-21", 1789948800),
        ("", None),
        ("tomorrow", None),
        ("9" * 30, None),
        ("2026-13-01", None),
    ],
)
def test_moments(text: str, moment: int | None) -> None:
    assert moment_of(text) == moment


def test_lines_without_a_date_are_counted() -> None:
    found = read_expiries(b'a:1790000000\n\nb:soon\nc\n"d":"2026-09-21T14:13:20Z"\n')
    assert (found.until, found.invalid) == ({b"a": 1790000000, b"d": 1790000000}, 2)


@given(st.binary(max_size=60))
def test_any_bytes_are_expiries(data: bytes) -> None:
    assert read_expiries(data).invalid <= data.count(b"\n") + 1
