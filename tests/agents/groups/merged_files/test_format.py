"""The merged file against the examples of the reference."""

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.agents.groups.merged_files.format import (
    MAX_MERGED,
    MergedError,
    MergedFile,
    latest,
    merge,
    sharable_name,
    split,
    unpack,
)
from tests.agents.wire.vectors import section as vectors

names = st.lists(
    st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/\\:"), min_size=1, max_size=20).filter(
        lambda part: part not in (".", "..")
    ),
    min_size=1,
    max_size=3,
).map("/".join)
files = st.lists(st.builds(MergedFile, names, st.binary(max_size=50)), max_size=8)


@pytest.mark.parametrize("case", vectors("merged_files"))
def test_examples_are_split_and_merged_again(case: dict[str, Any]) -> None:
    data = bytes.fromhex(case["merged_hex"])
    merged = split(data)
    assert merged.tag == case.get("group", case.get("folder"))
    assert merge(merged.tag, merged.files) == data
    assert hashlib.md5(data, usedforsecurity=False).hexdigest() == case["md5"]


def test_comment_lines_may_stand_between_files() -> None:
    data = bytes.fromhex(vectors("merged_files")[1]["merged_hex"]) * 5
    merged = split(data)
    assert (merged.tag, len(merged.files)) == ("linux", 25)
    assert hashlib.md5(data, usedforsecurity=False).hexdigest() == vectors("push_sequence")["file_md5"]


@settings(max_examples=200)
@given(names, files)
def test_merged_files_can_be_split(tag: str, given_files: list[MergedFile]) -> None:
    assert split(merge(tag, given_files)) == (tag, tuple(given_files))


@settings(max_examples=200)
@given(
    st.binary(max_size=60) | st.lists(st.sampled_from([b"#", b"!", b"3 ", b"a", b"\n", b"b/..", b"9"])).map(b"".join)
)
def test_invalid_bytes_raise_only_the_declared_error(data: bytes) -> None:
    with suppress(MergedError):
        assert sum(len(each.content) for each in split(data).files) <= len(data)


@pytest.mark.parametrize(
    "data",
    [
        b"!3 a\nab",
        b"!3 a",
        b"!-1 a\n",
        b"! a\n",
        b"!1x a\nb",
        b"!1 a\nbX",
        b"!1 ../a\nb",
        b"!1 /etc/passwd\nb",
        b"!1 a/../../b\nb",
        b"!1 a//b\nb",
        b"!1 ..\\..\\b\nb",
        b"!1 c:evil\nb",
        b"!1 a\0b\nb",
        b"!1 \nb",
        b"!1 " + b"n" * 201 + b"\nb",
        b"\n",
        b"text",
        b"!99999999999999999999 a\n",
    ],
)
def test_damaged_and_hostile_files(data: bytes) -> None:
    with pytest.raises(MergedError):
        split(b"#g\n" + data)


def test_names_that_agents_could_not_keep_in_their_folder() -> None:
    assert sharable_name("audit/extra file.txt")
    assert not any(map(sharable_name, ("", "..", "a/..", "a\nb", "a\rb", "d:x", "a\\b", "/a", "n" * 201)))


def test_a_file_that_is_too_large_is_not_written() -> None:
    with pytest.raises(MergedError, match="more than"):
        merge("g", (MergedFile(str(number), b"x" * (MAX_MERGED // 4)) for number in range(5)))


def test_unpacking(tmp_path: Path) -> None:
    data = merge("g", [MergedFile("a.conf", b"old"), MergedFile("sub/b", b""), MergedFile("a.conf", b"new")])
    assert unpack(data, tmp_path / "shared") == ["a.conf", "sub/b"]
    assert (tmp_path / "shared/a.conf").read_bytes() == b"new"
    assert (tmp_path / "shared/sub/b").read_bytes() == b""
    assert latest(split(data).files) == {"a.conf": b"new", "sub/b": b""}


def test_nothing_is_unpacked_of_a_damaged_file(tmp_path: Path) -> None:
    with pytest.raises(MergedError):
        unpack(b"#g\n!1 a\nx!1 ../b\nx", tmp_path / "shared")
    assert not (tmp_path / "shared").exists()
