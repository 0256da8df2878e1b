"""Merged files out of real folders."""

import hashlib
import logging
import os
import shutil
import threading
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.agents.groups.merged_files.builder import MergedFileBuilder, combine
from secmon.agents.groups.merged_files.format import MergedFile, latest, merge, split
from secmon.agents.names import group_hash
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.paths import Paths
from tests.agents.wire.vectors import section
from tests.manual_clock import ManualClock

RESPONSES = split(bytes.fromhex(section("merged_files")[0]["merged_hex"])).files[0].content


class Site:
    """An installation with a builder whose clock is far enough ahead for time stamps to be trusted."""

    def __init__(self, root: Path) -> None:
        self.paths = Paths(root)
        self.counters = Counters()
        self.clock = ManualClock(SystemClock().now() + timedelta(seconds=10))
        self.builder = MergedFileBuilder(self.paths, clock=self.clock, counters=self.counters)
        self.write("etc/shared/default/agent.conf", b"<agent_config>\n  <!-- shared -->\n</agent_config>\n")

    def write(self, path: str, content: bytes) -> Path:
        file = self.paths.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return file

    def merged(self, folder: str) -> bytes:
        return (self.paths.root / folder / "merged.mg").read_bytes()

    def files(self, group: str) -> Mapping[str, bytes]:
        return latest(split(self.merged(f"etc/shared/{group}")).files)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def unmerge(site: Site, case: dict[str, Any]) -> None:
    """The folder that an example was made of."""
    for name, content in split(bytes.fromhex(case["merged_hex"])).files:
        folder = "etc/shared" if name == "ar.conf" else f"etc/shared/{case['group']}"
        site.write(f"{folder}/{name}", content)


def test_the_examples_of_the_reference(site: Site) -> None:
    single, second, both = section("merged_files")
    unmerge(site, single)
    unmerge(site, second)
    assert site.builder.scan([both["groups"]]) == ["default", "linux", "default,linux"]
    assert site.merged("etc/shared/default").hex() == single["merged_hex"]
    assert site.merged("etc/shared/linux").hex() == second["merged_hex"]
    assert site.merged(f"var/multigroups/{both['folder']}").hex() == both["merged_hex"]
    assert hashlib.md5(site.merged("etc/shared/linux"), usedforsecurity=False).hexdigest() == second["md5"]
    assert oct((site.paths.shared / "linux/merged.mg").stat().st_mode & 0o777) == "0o660"


def test_nothing_is_written_when_nothing_changed(site: Site) -> None:
    site.write("etc/shared/web/a", b"1")
    assert site.builder.scan(["default,web"]) == ["default", "web", "default,web"]
    assert site.builder.scan(["default,web"]) == []
    again = MergedFileBuilder(site.paths, clock=site.clock, counters=site.counters)
    assert again.scan(["default,web"]) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "a").write_bytes(b"2"),
        lambda folder: (folder / "a").unlink(),
        lambda folder: (folder / "a").rename(folder / "z"),
        lambda folder: (folder / "sub").mkdir() or (folder / "sub/new").write_bytes(b""),
        lambda folder: (folder / "merged.mg").unlink(),
        lambda folder: (folder / "merged.mg").write_bytes(b"damaged"),
        lambda folder: (folder.parent / "ar.conf").write_bytes(b"x - y - 0\n"),
    ],
)
def test_each_change_is_detected(site: Site, change: Any) -> None:
    folder = site.write("etc/shared/web/a", b"1").parent
    site.write("etc/shared/web/b", b"1")
    site.builder.scan(["web,default"])
    change(folder)
    written = site.builder.scan(["web,default"])
    assert "web" in written
    expected = [MergedFile(name, site.files("web")[name]) for name in site.files("web")]
    assert site.merged("etc/shared/web") == merge("web", expected)
    fresh = MergedFileBuilder(site.paths, clock=site.clock, counters=Counters())
    assert fresh.scan(["web,default"]) == []


def test_a_change_within_the_resolution_of_time_stamps(site: Site) -> None:
    builder = MergedFileBuilder(site.paths, clock=SystemClock(), counters=Counters())
    file = site.write("etc/shared/web/a", b"1")
    builder.scan([])
    assert not builder.stable
    before = file.stat()
    file.write_bytes(b"2")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert builder.scan([], touched=[]) == ["web"]
    assert site.files("web")["a"] == b"2"


def test_only_changed_groups_are_scanned(site: Site) -> None:
    site.write("etc/shared/web/a", b"1")
    site.write("etc/shared/db/a", b"1")
    site.builder.scan([])
    site.write("etc/shared/web/a", b"22")
    site.write("etc/shared/db/a", b"22")
    assert site.builder.scan([], touched=["web"]) == ["web"]
    assert site.builder.scan([], touched=[]) == []
    assert site.builder.scan([]) == ["db"]


def test_files_that_are_not_shared(site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "shadow").write_bytes(b"root")
    folder = site.write("etc/shared/web/good name.txt", b"1").parent
    for name in (
        ".hidden",
        ".git/config",
        "merged.mg.tmp",
        "ar.conf",
        "n" * 201,
        "sub/.x",
        "a\nb",
        "back\\slash",
        "c:x",
    ):
        site.write(f"etc/shared/web/{name}", b"no")
    site.write("etc/shared/web/binary", b"a\0b")
    (folder / "link").symlink_to(secret / "shadow")
    (folder / "linked").symlink_to(secret)
    (site.paths.shared / "group-link").symlink_to(secret)
    (site.paths.shared / "no group").mkdir()
    os.mkfifo(folder / "pipe")
    with caplog.at_level(logging.WARNING):
        site.builder.scan([])
        site.builder.scan([])
        site.write("etc/shared/web/other", b"")
        site.builder.scan([])
    assert list(site.files("web")) == ["good name.txt", "other"]
    assert len(caplog.records) == len({record.getMessage() for record in caplog.records}) == 9
    assert not (secret / "merged.mg").exists()


def test_names_that_are_not_text(site: Site) -> None:
    folder = site.write("etc/shared/web/z", b"1").parent
    Path(os.fsdecode(os.fsencode(folder) + b"/bad-\xff")).write_bytes(b"2")
    site.builder.scan([])
    assert site.merged("etc/shared/web") == b"#web\n!1 bad-\xff\n2!1 z\n1"


def test_the_order_is_bytewise_with_folders_in_their_place(site: Site) -> None:
    for name in ("b", "a.x", "a/b", "a/b2/c", "A", "ä", "a-"):
        site.write(f"etc/shared/web/{name}", b"")
    site.builder.scan(["web,default"])
    order = [each.name for each in split(site.merged("etc/shared/web")).files]
    assert order == ["A", "a/b", "a/b2/c", "a-", "a.x", "b", "ä"]
    folder = next(site.paths.multigroups.iterdir()).name
    combined = [each.name for each in split(site.merged(f"var/multigroups/{folder}")).files]
    assert combined == ["A", "a/b", "a/b2/c", "a-", "a.x", "agent.conf", "b", "ä"]


def test_the_last_group_wins() -> None:
    first = {"agent.conf": b"<one/>", "same": b"1", "clash": b"file", "tree/x": b"1", "tree/y": b"1", "ar.conf": b"no"}
    second = {"agent.conf": b"<two/>\n", "same": b"2", "clash/x": b"2", "tree": b"2"}
    assert combine([("a", first), ("b", second)]) == [
        ("agent.conf", b"<!-- Source file: a/agent.conf -->\n<one/>\n<!-- Source file: b/agent.conf -->\n<two/>\n"),
        ("clash/x", b"2"),
        ("same", b"2"),
        ("tree", b"2"),
    ]
    assert [each.name for each in combine([("b", second), ("a", first)])] == [
        "agent.conf", "clash", "same", "tree/x", "tree/y",
    ]  # fmt: skip


_trees = st.dictionaries(st.sampled_from(["a", "a/b", "a/b/c", "a/d", "b", "b/c", "agent.conf"]), st.binary(max_size=2))


@settings(max_examples=150)
@given(st.lists(_trees.filter(lambda tree: not any(f"{x}/" in f"{y}" for x in tree for y in tree)), max_size=4))
def test_a_combination_can_always_be_unpacked(trees: list[dict[str, bytes]]) -> None:
    combined = combine([(str(number), tree) for number, tree in enumerate(trees)])
    names = [each.name for each in combined]
    assert len(names) == len(set(names))
    assert not any(other.startswith(f"{name}/") for name in names for other in names)
    for name, content in trees[-1].items() if trees else ():
        assert any(each.name == name and each.content.endswith(content) for each in combined)


def test_combinations_are_built_and_deleted(site: Site) -> None:
    site.write("etc/shared/web/a", b"1")
    site.builder.scan(["default,web", "web,default"])
    assert len(list(site.paths.multigroups.iterdir())) == 2
    (site.paths.multigroups / "12345678").symlink_to(site.paths.shared)
    (site.paths.multigroups / "not ours").mkdir()
    site.builder.scan(["default,web"])
    assert {each.name for each in site.paths.multigroups.iterdir()} == {group_hash("default,web"), "not ours"}
    assert (site.paths.shared / "web/a").exists()


def test_a_combination_follows_its_groups(site: Site) -> None:
    site.write("etc/shared/web/a", b"1")
    site.write("etc/shared/db/a", b"1")
    site.builder.scan(["default,web", "default,db"])
    site.write("etc/shared/web/a", b"22")
    assert site.builder.scan(["default,web", "default,db"]) == ["web", "default,web"]
    shutil.rmtree(site.paths.shared / "web")
    assert site.builder.scan(["default,web"]) == ["default,web"]
    site.write("etc/shared/web/a", b"3")
    assert site.builder.scan(["default,web"]) == ["web", "default,web"]


def test_a_file_in_the_place_of_the_folder_of_a_combination(site: Site) -> None:
    site.write("etc/shared/web/a", b"1")
    site.write("var/multigroups/fe375984", b"a file")
    site.write("etc/shared/linux/a", b"1")
    assert "default,linux" in site.builder.scan(["default,linux"])
    shutil.rmtree(site.paths.multigroups / "fe375984")
    assert site.builder.scan(["default,linux"]) == ["default,linux"]


def test_the_default_group_is_made(site: Site) -> None:
    shutil.rmtree(site.paths.shared / "default")
    assert site.builder.scan([]) == ["default"]
    assert (site.paths.shared / "default/agent.conf").exists()


def test_a_downloaded_merged_file_is_not_rebuilt(site: Site) -> None:
    data = merge("web", [MergedFile("only.txt", b"1"), MergedFile("ar.conf", b"theirs")])
    site.write("etc/shared/web/merged.mg", data)
    site.write("etc/shared/web/agent.conf", b"<agent_config/>")
    site.write("etc/shared/ar.conf", b"ours")
    site.builder.received = frozenset({"web"})
    site.builder.scan(["default,web"])
    assert site.merged("etc/shared/web") == data
    folder = next(site.paths.multigroups.iterdir()).name
    files = split(site.merged(f"var/multigroups/{folder}")).files
    assert [each.name for each in files] == ["ar.conf", "agent.conf", "only.txt"]
    assert files[0].content == b"ours"
    site.write("etc/shared/web/merged.mg", merge("web", [MergedFile("only.txt", b"2")]))
    assert site.builder.scan(["default,web"]) == ["web", "default,web"]
    site.builder.received = frozenset()
    assert site.builder.scan(["default,web"]) == ["web", "default,web"]
    assert list(site.files("web")) == ["ar.conf", "agent.conf"]


def test_a_failure_is_logged_once_and_delays_nothing(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.write("etc/shared/web/a", b"1")
    (site.paths.shared / "bad/merged.mg").mkdir(parents=True)
    (site.paths.shared / "bad/merged.mg/x").write_bytes(b"")
    with caplog.at_level(logging.ERROR):
        assert "web" in site.builder.scan([])
        site.builder.scan([])
    assert len(caplog.records) == 1
    assert site.counters.snapshot()["groups.failures"] == 2
    shutil.rmtree(site.paths.shared / "bad/merged.mg")
    assert site.builder.scan([]) == ["bad"]


def test_no_shared_folder_at_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    builder = MergedFileBuilder(Paths(tmp_path), clock=SystemClock(), counters=Counters())
    assert builder.scan(["a,b"]) == []
    assert builder.scan(["a,b"]) == []
    assert len(caplog.records) == 1


def test_files_that_are_created_and_deleted_during_a_thousand_reads(site: Site) -> None:
    """Readers see whole files only, and in the end the newest content."""
    site.write("etc/shared/web/agent.conf", b"0" * 5000)
    site.builder.scan(["default,web"])
    ends = threading.Event()
    faults: list[str] = []

    def edit() -> None:
        for turn in range(60):
            site.write("etc/shared/web/agent.conf", str(turn % 10).encode() * 5000)
            site.write(f"etc/shared/web/sub/{turn % 5}", b"x" * turn)
            (site.paths.shared / f"web/sub/{(turn + 2) % 5}").unlink(missing_ok=True)
        ends.set()

    def read() -> None:
        while not ends.is_set():
            for folder in ("etc/shared/web", f"var/multigroups/{combined}"):
                try:
                    split(site.merged(folder))
                except ValueError as error:
                    faults.append(str(error))

    combined = next(site.paths.multigroups.iterdir()).name
    threads = [threading.Thread(target=edit), threading.Thread(target=read), threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    while not ends.is_set():
        site.builder.scan(["default,web"])
    for thread in threads:
        thread.join()
    site.clock.advance(60)
    site.builder.scan(["default,web"])
    assert not faults
    assert site.files("web")["agent.conf"] == b"9" * 5000


def reads() -> int:
    """How often this process has read from a file."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("syscr")).split()[1])


def test_thousands_of_files_that_do_not_change_are_not_read(site: Site) -> None:
    for group in range(4):
        folder = site.paths.shared / f"g{group}"
        folder.mkdir()
        for number in range(1000):
            (folder / str(number)).write_bytes(b"x")
    site.clock.advance(3600)
    assert len(site.builder.scan([])) == 5
    before = reads()
    assert site.builder.scan([]) == []
    assert reads() - before < 200
