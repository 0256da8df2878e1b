"""Imports: what is newer replaces what is older, all at once, and can be taken back; bad feeds change nothing."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from secmon.common.paths import Paths
from secmon.knowledge.vulnerabilities import feed_files, osv
from secmon.knowledge.vulnerabilities.feed_files import records_in_file, records_in_folder
from secmon.knowledge.vulnerabilities.importing import Imported, import_feed, roll_back
from secmon.knowledge.vulnerabilities.records import FeedError
from secmon.knowledge.vulnerabilities.source import AdvisorySource
from secmon.knowledge.vulnerabilities.versions import version_key
from tests.knowledge.vulnerabilities.records import affected, archive, encoded, fixed, record

DEMO = fixed("DSA-1", "Debian:12", "demo", "2.4.1-4", aliases=["CVE-2099-0001"])


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "etc").mkdir()
    (tmp_path / "var/db").mkdir(parents=True)
    return Paths(tmp_path)


def put(paths: Paths, content: bytes, **options: Any) -> Imported:
    return import_feed(paths, records_in_file(io.BytesIO(content)), **options)


def hits(paths: Paths, ecosystem: str, name: str, version: str, order: str = "deb") -> list[str]:
    """Ids of the records that affect the version, of a new source."""
    source = AdvisorySource(paths)
    source.refresh()
    file = source.get(ecosystem)
    found = (
        [] if file is None else [file.advisory(hit.record).id for hit in file.hits(name, version_key(order, version))]
    )
    source.close()
    return found


def names(paths: Paths) -> list[str]:
    return sorted(path.name for path in paths.advisories.iterdir())


def test_forms_of_feeds(paths: Paths, tmp_path: Path) -> None:
    library = record("GHSA-1", affected("npm", "left", {"fixed": "1.0.0"}))
    (tmp_path / "feed/below").mkdir(parents=True)
    (tmp_path / "feed/below/a.json").write_bytes(encoded(DEMO))
    (tmp_path / "feed/readme.txt").write_bytes(b"no record")
    members = {"a.json": encoded(DEMO), "b/c.json": encoded(library), "readme.txt": b"no record"}
    for content in (
        encoded(DEMO, library),
        archive(members),
        encoded(DEMO) + b"\n" + encoded(library) + b"\n",
        json.dumps([DEMO, library], indent=2).encode(),
    ):
        done = put(paths, content)
        assert done.records == 2
        assert hits(paths, "Debian:12", "demo", "2.4.1-3") == ["DSA-1"]
        assert hits(paths, "npm", "left", "1.0.0-rc.1", "npm") == ["GHSA-1"]
        assert names(paths) == ["debian-12.db", "npm.db"]
        roll_back(paths)
        assert names(paths) == []
    assert import_feed(paths, records_in_folder(tmp_path / "feed")) == (1, 0, {"Debian:12": 1})
    assert put(paths, json.dumps(DEMO, indent=2).encode()) == (1, 0, {})


def test_the_later_record_counts_whatever_comes_first(paths: Paths) -> None:
    newer = fixed("DSA-1", "Debian:12", "demo", "3", modified="2099-01-13T00:00:00.5Z")
    for feed in ((DEMO, newer), (newer, DEMO)):
        put(paths, encoded(*feed))
        assert hits(paths, "Debian:12", "demo", "2.9") == ["DSA-1"]
    assert put(paths, encoded(DEMO)).ecosystems == {}
    assert hits(paths, "Debian:12", "demo", "2.9") == ["DSA-1"]


def test_a_record_leaves_an_ecosystem_that_it_no_longer_names(paths: Paths) -> None:
    put(paths, encoded(record("A", affected("Debian:11", "demo"), affected("Debian:12", "demo"))))
    put(paths, encoded(record("A", affected("Debian:12", "demo"), modified="2099-02-01T00:00:00Z")))
    assert (hits(paths, "Debian:11", "demo", "1"), hits(paths, "Debian:12", "demo", "1")) == ([], ["A"])
    withdrawn = record(
        "A", affected("Debian:12", "demo"), modified="2099-02-02T00:00:00Z", withdrawn="2099-02-02T00:00:00Z"
    )
    put(paths, encoded(withdrawn))
    assert hits(paths, "Debian:12", "demo", "1") == []
    put(paths, encoded(record("A", affected("Debian:12", "demo"))))
    assert hits(paths, "Debian:12", "demo", "1") == []


def test_a_full_import_drops_what_the_feed_does_not_have(paths: Paths) -> None:
    put(paths, encoded(DEMO, fixed("DSA-2", "Debian:12", "other", "2"), record("G", affected("npm", "left"))))
    put(paths, encoded(DEMO), full=True)
    assert hits(paths, "Debian:12", "other", "1") == []
    assert hits(paths, "npm", "left", "1", "npm") == ["G"]


def test_only_the_ecosystems_asked_for_change(paths: Paths) -> None:
    both = record("A", affected("Debian:12", "demo"), affected("npm", "demo"))
    assert put(paths, encoded(both), only=lambda ecosystem: ecosystem == "npm") == (1, 0, {"npm": 1})
    done = put(paths, encoded(both, record("R", affected("crates.io", "x"))), only=lambda each: each == "Debian:12")
    assert done == (2, 1, {"Debian:12": 1})
    assert hits(paths, "npm", "demo", "1", "npm") == ["A"]


def test_equal_records_have_equal_digests_on_all_nodes(tmp_path: Path) -> None:
    digests = set()
    for number, feed in enumerate(
        ((DEMO, fixed("B", "Debian:12", "x", "2")), (fixed("B", "Debian:12", "x", "2"), DEMO))
    ):
        paths = Paths(tmp_path / str(number))
        put(paths, encoded(*feed))
        source = AdvisorySource(paths)
        source.refresh()
        digests.add(source.digest("Debian:12"))
        source.close()
    assert len(digests) == 1


def test_a_rollback_restores_the_files_before_the_last_import(paths: Paths) -> None:
    put(paths, encoded(DEMO))
    put(paths, encoded(fixed("DSA-2", "Debian:12", "other", "2"), record("G", affected("npm", "left"))))
    assert roll_back(paths) == ["debian-12.db", "npm.db"]
    assert names(paths) == ["debian-12.db"]
    assert (hits(paths, "Debian:12", "demo", "1"), hits(paths, "Debian:12", "other", "1")) == (["DSA-1"], [])
    assert roll_back(paths) == []


def test_a_source_follows_replaced_files_and_keeps_the_last_good_one(
    paths: Paths, caplog: pytest.LogCaptureFixture
) -> None:
    source = AdvisorySource(paths)
    assert not source.refresh()
    put(paths, encoded(DEMO))
    assert source.refresh()
    assert not source.refresh()
    first = source.digest("Debian:12")
    put(paths, encoded(fixed("DSA-2", "Debian:12", "other", "2")))
    assert source.refresh()
    second = source.digest("Debian:12")
    assert first != second
    [path] = paths.advisories.iterdir()
    path.unlink()
    path.write_bytes(b"nonsense")
    assert source.refresh()
    assert source.digest("Debian:12") == second
    assert "debian-12.db" in caplog.text
    fresh = AdvisorySource(paths)
    fresh.refresh()
    with pytest.raises(FeedError, match="damaged"):
        fresh.digest("Debian:12")
    assert put(paths, encoded(DEMO)).ecosystems == {"Debian:12": 1}
    assert fresh.refresh()
    assert fresh.digest("Debian:12")
    for each in (source, fresh):
        each.close()


def _links(content: bytes) -> bytes:
    """An archive with a symbolic link in place of a record."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        member = zipfile.ZipInfo("a.json")
        member.external_attr = 0o120777 << 16
        file.writestr(member, content)
    return buffer.getvalue()


BAD: dict[str, Callable[[], bytes]] = {
    "truncated": lambda: archive({"a.json": encoded(DEMO) * 1})[:-30],
    "cut in a member": lambda: archive({"a.json": encoded(DEMO), "b.json": b"x" * 5000})[:200],
    "outside": lambda: archive({"../../etc/passwd.json": encoded(DEMO)}),
    "absolute": lambda: archive({"/etc/a.json": encoded(DEMO)}),
    "drive": lambda: archive({"c:\\a.json": encoded(DEMO)}),
    "link": lambda: _links(b"/etc/passwd"),
    "empty archive": lambda: archive({}),
    "no records": lambda: b"[]",
    "wrong types": lambda: encoded(DEMO, {"id": "B", "modified": 5}),
    "text": lambda: b"hello",
    "empty": lambda: b"",
    "deep": lambda: b"[" * 100_000,
    "half JSON": lambda: encoded(DEMO)[:-1],
    "one bad line": lambda: encoded(DEMO) + b"\n{}\n",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_feed_changes_nothing(paths: Paths, name: str) -> None:
    put(paths, encoded(fixed("OLD", "Debian:12", "demo", "9")))
    before = [path.stat().st_ino for path in paths.advisories.iterdir()]
    with pytest.raises(FeedError):
        put(paths, BAD[name]())
    assert [path.stat().st_ino for path in paths.advisories.iterdir()] == before
    assert [path.name for path in (paths.root / "var/db").iterdir()] == ["previous-advisories"]


def test_archives_and_records_are_bounded(paths: Paths, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(feed_files, "MAX_RECORD", 5000)
    big = encoded(record("A", affected("npm", "x"), details="x" * 6000))
    (tmp_path / "a.json").write_bytes(big)
    for content in (archive({"a.json": big}), big, encoded(DEMO) + b"\n" + big + b"\n"):
        with pytest.raises(FeedError, match=r"MB|limit"):
            put(paths, content)
    with pytest.raises(FeedError, match="MB"):
        import_feed(paths, records_in_folder(tmp_path))
    monkeypatch.setattr(feed_files, "MAX_RECORD", osv.MAX_RECORD)
    monkeypatch.setattr(feed_files, "_FREE_BYTES", 1000)
    bomb = archive({f"{number}.json": b" " * 1_000_000 + encoded(DEMO) for number in range(20)})
    with pytest.raises(FeedError, match="unpacks to too much"):
        put(paths, bomb)
    assert list(paths.advisories.iterdir()) == []
