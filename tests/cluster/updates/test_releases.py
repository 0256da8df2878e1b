"""Lists of releases from anywhere, and which of them are newer."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.cluster.updates.releases import Release, newer, read_releases

GOOD = {"tag": "v4.9.0", "title": "t", "description": "d", "published_date": "2026-03-01T09:00:00Z"}


def document(*releases: Any, **more: Any) -> bytes:
    return json.dumps({"releases": releases, **more}).encode()


def release(tag: str) -> Release:
    return Release(tag=tag, title="", description="", published_date=datetime(2026, 3, 1, tzinfo=UTC))


def test_further_members_are_ignored() -> None:
    (found,) = read_releases(document(GOOD | {"assets": [{}]}, next=1))
    assert (found.tag, found.version, found.published_date.year) == ("v4.9.0", (4, 9, 0), 2026)
    assert read_releases(document()) == ()


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"tag": "4.9"}, "tag"),
        ({"tag": "v4.9.0-rc1"}, "tag"),
        ({"tag": "v4.9.0\n"}, "tag"),
        ({"tag": "v4.9.٣"}, "tag"),
        ({"tag": "v4.9." + "9" * 5000}, "tag"),
        ({"tag": None}, "tag"),
        ({"title": "x" * 1025}, "title"),
        ({"description": 1}, "description"),
        ({"description": "x" * 65_537}, "description"),
        ({"published_date": "2026-03-01T09:00:00"}, "timezone"),
        ({"published_date": "yesterday"}, "published_date"),
        ({"published_date": "0001-01-01T00:00:00+05:00"}, "out of range"),
        ({"published_date": "9999-12-31T23:59:59-05:00"}, "out of range"),
    ],
)
def test_releases_that_are_refused(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        read_releases(document(GOOD, GOOD | changed))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"null",
        b"[]",
        b"{}",
        b'{"releases": null}',
        b'{"releases": [null]}',
        b'{"releases": [{}]}',
        b'{"releases": []',
        b'{"releases": []} x',
        b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b', "releases": []}',
        b'{"releases": ["\xff"]}',
        json.dumps({"releases": [GOOD | {"title": "\ud800 lone"}]}).encode(),
        document(*[GOOD] * 1001),
    ],
    ids=lambda one: ascii(one)[:24],
)
def test_documents_that_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_releases(data)


@settings(max_examples=200)
@given(st.binary() | st.recursive(st.none() | st.text() | st.integers(), lambda one: st.lists(one)).map(document))
def test_nothing_else_is_raised(data: bytes) -> None:
    try:
        found = read_releases(data)
    except ValueError:
        return
    assert msgspec.json.decode(msgspec.json.encode(found), type=tuple[Release, ...]) == found


def test_the_last_of_each_kind() -> None:
    tags = ["v4.8.1", "v4.8.2", "v4.8.3", "4.8.10", "v4.9.0", "v4.10.1", "v4.10.0", "v5.0.0", "v5.1.0", "v3.99.99"]
    found = newer([release(tag) for tag in tags], (4, 8, 2))
    assert [one and one.tag for one in found] == ["v5.1.0", "v4.10.1", "4.8.10"]
    assert newer([release(tag) for tag in tags], (5, 1, 0)) == (None, None, None)
    assert newer([], (4, 8, 2)) == (None, None, None)


versions = st.tuples(*[st.integers(0, 3)] * 3)


@settings(max_examples=200)
@given(st.lists(versions), versions)
def test_every_newer_release_is_covered_by_the_last_of_its_kind(
    given: list[tuple[int, int, int]], own: tuple[int, int, int]
) -> None:
    found = [one.version for one in newer([release("v{}.{}.{}".format(*each)) for each in given], own) if one]
    assert all(each > own for each in found)
    assert max(found, default=own) == max([*given, own])
    assert bool(found) is any(each > own for each in given)
