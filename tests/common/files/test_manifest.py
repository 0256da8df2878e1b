"""Digest and comparison of manifests."""

from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.files.manifest import Entry, Manifest

paths = st.sampled_from([f"etc/rules/{name}" for name in "abcdefgh"])
entries = st.builds(Entry, st.binary(min_size=32, max_size=32), st.integers(0, 1 << 40))
sets = st.dictionaries(paths, entries)


@settings(max_examples=150)
@given(sets, st.lists(st.tuples(paths, st.none() | entries)))
def test_the_digest_depends_on_the_content_alone(
    start: dict[str, Entry], edits: list[tuple[str, Entry | None]]
) -> None:
    manifest = Manifest(start)
    plain = dict(start)
    for path, entry in edits:
        manifest.put(path, entry)
        if entry is None:
            plain.pop(path, None)
        else:
            plain[path] = entry
    assert manifest.entries() == plain
    assert manifest.digest == Manifest(dict(reversed(plain.items()))).digest


@settings(max_examples=150)
@given(sets, sets)
def test_digests_are_equal_only_for_equal_sets(one: dict[str, Entry], other: dict[str, Entry]) -> None:
    assert (Manifest(one).digest == Manifest(other).digest) == (one == other)


@settings(max_examples=150)
@given(sets, sets)
def test_the_difference_leads_from_one_to_the_other(one: dict[str, Entry], other: dict[str, Entry]) -> None:
    own, wanted = Manifest(one), Manifest(other)
    change = own.difference(wanted)
    assert change.empty == (one == other)
    own.apply({**change.missing, **change.shared, **dict.fromkeys(change.extra)})
    assert own.entries() == other


def test_a_copy_is_its_own() -> None:
    manifest = Manifest({"etc/rules/a": Entry(b"1" * 32, 1)})
    copy = manifest.copy()
    copy.put("etc/rules/a", None)
    assert "etc/rules/a" in manifest
    assert len(copy) == 0
    assert copy.digest == Manifest().digest
