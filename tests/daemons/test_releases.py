"""Links of releases, and stores that are put back as they were before a migration."""

from pathlib import Path

import pytest

from secmon.cli.upgrade import put_back
from secmon.common.paths import Paths
from secmon.daemons.releases import Links, ReleaseError, Releases
from tests.cli.runner import run
from tests.manual_clock import ManualClock


@pytest.fixture
def releases(tmp_path: Path) -> Releases:
    folder = tmp_path / "releases"
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)
    (folder / "current").symlink_to("a")
    return Releases(folder / "current")


def test_the_links_change_and_are_put_back(releases: Releases) -> None:
    before, b = releases.links(), releases.folder / "b"
    assert before == Links(releases.folder / "a", None)
    releases.switch(b)
    assert releases.links() == Links(b, releases.folder / "a")
    releases.put(before)
    assert releases.links() == before
    assert {each.name for each in releases.folder.iterdir()} == {"a", "b", "current"}


def test_refusals(releases: Releases, tmp_path: Path, root: Path) -> None:
    other = tmp_path / "requests-2.0-py3-none-any.whl"
    other.write_bytes(b"")
    with pytest.raises(ReleaseError, match="not the name of a wheel of secmon"):
        releases.make(other)
    releases.folder.chmod(0o777)
    with pytest.raises(ReleaseError, match="no other may write it"):
        Releases(releases.link)
    wheel = tmp_path / "secmon-0.9.0-py3-none-any.whl"
    wheel.write_bytes(b"no wheel")
    releases.folder.chmod(0o755)
    with pytest.raises(ReleaseError):
        releases.make(wheel)
    assert {each.name for each in releases.folder.iterdir()} == {"a", "b", "current"}, "nothing is left of it"
    done = run("service", "upgrade", "--root", root)
    assert (done.exit_code, "name the wheel" in done.output) == (2, True)


def test_migrated_stores_are_put_back_and_no_others(tmp_path: Path) -> None:
    paths, clock = Paths(tmp_path), ManualClock()
    store = paths.security_db
    store.parent.mkdir(parents=True)
    old, first, later = (store.with_name(f"{store.name}.version-{name}") for name in ("1-10", "2-20", "3-30"))
    for file, content in ((store, "newest"), (old, "of last year"), (first, "before"), (later, "between")):
        file.write_text(content)
    store.with_name(f"{store.name}-wal").write_text("of the newest")
    (line,) = put_back(paths, {old}, clock)
    assert store.read_text() == "before"
    assert not store.with_name(f"{store.name}-wal").exists()
    kept = Path(line.rpartition(" kept as ")[2].rstrip("."))
    assert (kept.read_text(), kept.with_name(f"{kept.name}-wal").read_text()) == ("newest", "of the newest")
    assert list(put_back(paths, {old, first, later}, clock)) == []
