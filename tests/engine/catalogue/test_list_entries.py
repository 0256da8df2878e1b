"""Lists as the API reads and accepts them (analysis-api.md 4.1, 5.4)."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.errors import SecmonError
from secmon.engine.catalogue.list_entries import check_entries, find_lists, read_entries
from secmon.engine.ruleset.cdb_list import CdbList

PLAIN_KEYS = st.text(st.characters(codec="utf-8", exclude_characters=':"', exclude_categories=["Z", "C"]), min_size=1)
PLAIN_VALUES = st.text(st.characters(codec="utf-8", exclude_characters=':"\n\r', exclude_categories=["C"]))
QUOTED = st.from_regex(r'"[A-Za-z0-9_:-]+"', fullmatch=True)
LINES = st.tuples(PLAIN_KEYS | QUOTED, PLAIN_VALUES | QUOTED).map(":".join)


@pytest.mark.parametrize("line", ["a:b", "a:", '"a:b":c', '"a:b":"c:d"', "10.0.0.:x y", "a:b\r"])
def test_accepted_lines(line: str) -> None:
    check_entries(f"{line}\n".encode())
    check_entries(f"k:v\n{line}".encode())


@pytest.mark.parametrize(
    "line", ["a:b:c", '"a:b":c:d', "a b:c", ":x", '"10.0.0.1":x', "a", "", "# a:b c:d", '"":x', 'a:"b"c', " a:b"]
)
def test_refused_lines(line: str) -> None:
    with pytest.raises(SecmonError, match=r"1800: .*line 2$"):
        check_entries(f"k:v\n{line}\nl:w\n".encode())


@pytest.mark.parametrize("text", [b"", b" \n\n"])
def test_nothing_is_refused(text: bytes) -> None:
    with pytest.raises(SecmonError, match="1112"):
        check_entries(text)


def test_reading() -> None:
    text = b'\n\na:b\nTEMPLATE: x : y\n"c:d":"e:f"\n"g":h\ni:"j"\na:again\n:k\n\n'
    assert read_entries(text) == {"a": "again", "c:d": "e:f", "g": "h", "i": "j", "": "k"}


@pytest.mark.parametrize(("text", "where"), [(b"", "no entry"), (b"a:b\n\nc:d", "line 2"), (b"\na:b:c\n", "line 2")])
def test_lists_that_are_not_read(text: bytes, where: str) -> None:
    with pytest.raises(SecmonError, match=f"1800: .*{where}"):
        read_entries(text)


def key_of(line: str) -> str:
    return next(iter(read_entries(line.encode()))) if "TEMPLATE" not in line else line


@given(st.lists(LINES, min_size=1, max_size=8, unique_by=key_of))
@settings(max_examples=200)
def test_what_is_accepted_is_read_and_means_the_same_to_the_engine(lines: list[str]) -> None:
    text = "\n".join(lines).encode()
    check_entries(text)
    if "TEMPLATE" in "".join(lines):
        return
    entries, compiled = read_entries(text), CdbList(text)
    assert len(entries) == len(compiled) == len(lines)
    for key, value in entries.items():
        assert compiled.value(key.encode(), 0) == value.encode()


@given(st.text('ab": \t\r\n', max_size=30).map(str.encode))
@settings(max_examples=200)
def test_whatever_is_accepted_is_read(text: bytes) -> None:
    try:
        check_entries(text)
    except SecmonError:
        return
    assert read_entries(text)


def test_lists_of_folders(tmp_path: Path) -> None:
    for name in ("b", "a", "a.cdb", "a~", ".a.swp", "a.expiry", "feeds.yml", "c.txt", "sub/a", "sub/deep/d"):
        file = tmp_path / "etc/lists" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    found = [f"{folder}/{name}" for folder, name in find_lists(tmp_path, "etc/lists")]
    assert found == ["etc/lists/a", "etc/lists/b", "etc/lists/c.txt", "etc/lists/sub/a", "etc/lists/sub/deep/d"]
