"""The master's files in the store of record."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from secmon.cluster.record import file_record
from secmon.cluster.record.engine import open_record
from secmon.cluster.record.file_record import FileChanged, differences, read_content, recorded_files
from secmon.cluster.record.masters_record import FileRecorder
from secmon.cluster.record.schema import contents
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.common.files.manifest import Entry
from secmon.common.files.scan import Scanner
from secmon.common.paths import Paths
from secmon.daemons.take_files import take_files
from tests.cluster.record.kit import FIRST, SECOND, Record
from tests.postgres import PostgresServer
from tests.waiting import LIMIT_SECONDS


class Node:
    """A folder with replicated files."""

    def __init__(self, root: Path, store: Record) -> None:
        self.paths, self._store = Paths(root), store
        self.engine = open_record(store.address, statement_seconds=LIMIT_SECONDS)
        self.held = FIRST
        self.recorder = FileRecorder(root, self.engine, store.address, lambda: self.held)
        self._scanner = Scanner(root, clock=SystemClock())

    def write(self, path: str, data: bytes) -> None:
        file = self.paths.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def scan(self) -> dict[str, Entry | None]:
        return self._scanner.rescan()

    def put(self) -> None:
        self.recorder.put(self.scan())

    def take(self) -> None:
        take_files(self.paths, self._store.address, self.held, SystemClock())

    def files(self) -> dict[str, bytes]:
        found = (file for file in (self.paths.root / "etc").rglob("*") if file.is_file())
        return {str(file.relative_to(self.paths.root)): file.read_bytes() for file in found}


@pytest.fixture
def node(tmp_path: Path, store: Record) -> Iterator[Node]:
    made = Node(tmp_path / "one", store)
    made.paths.root.mkdir()
    yield made
    made.engine.dispose()


def paths_of(store: Record) -> set[str]:
    with store.engine.begin() as connection:
        return set(recorded_files(connection))


def test_changes_are_recorded_and_taken_elsewhere(node: Node, store: Record, tmp_path: Path) -> None:
    large = bytes(range(256)) * 40_000
    node.write("etc/rules/local.xml", b"<group name='a'/>")
    node.write("etc/shared/web/agent.conf", b"")
    node.write("etc/lists/large", large)
    node.write("etc/shared/web/merged.mg", b"derived")
    node.write("etc/ossec.conf", b"not replicated")
    node.put()
    assert paths_of(store) == {"etc/rules/local.xml", "etc/shared/web/agent.conf", "etc/lists/large"}
    (node.paths.root / "etc/rules/local.xml").unlink()
    node.put()
    other = Node(tmp_path / "two", store)
    other.write("etc/rules/mine.xml", b"edited by hand")
    other.write("etc/lists/large", b"old")
    other.take()
    assert other.files() == {"etc/shared/web/agent.conf": b"", "etc/lists/large": large}
    aside = other.paths.unrecorded_files / "before-term-1"
    assert (aside / "etc/rules/mine.xml").read_bytes() == b"edited by hand"
    assert (aside / "etc/lists/large").read_bytes() == b"old"
    other.engine.dispose()


def test_a_group_that_was_deleted_is_not_there_again(node: Node, store: Record, tmp_path: Path) -> None:
    """The copy that takes over has missed it. Merged files are not recorded."""
    other = Node(tmp_path / "two", store)
    for group in ("web", "gone", "empty"):
        for one in (node, other):
            one.write(f"etc/shared/{group}/agent.conf", b"")
            one.write(f"etc/shared/{group}/merged.mg", b"derived")
    node.put()
    shutil.rmtree(node.paths.shared / "gone")
    (node.paths.shared / "empty/agent.conf").unlink()
    node.put()
    (other.paths.shared / "empty/agent.conf").unlink()
    (other.paths.shared / "gone/ar.conf").write_bytes(b"stays on its node")
    other.take()
    assert other.files() == {"etc/shared/web/agent.conf": b"", "etc/shared/web/merged.mg": b"derived"}
    assert sorted(each.name for each in other.paths.shared.iterdir()) == ["web"]
    other.engine.dispose()


def test_equal_contents_are_kept_once_and_go_with_the_last_file(
    node: Node, store: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_record, "PART_BYTES", 10)
    node.write("etc/lists/a", b"x" * 25)
    node.write("etc/lists/b", b"x" * 25)
    node.put()

    def parts() -> int:
        with store.engine.begin() as connection:
            return connection.execute(select(func.count()).select_from(contents)).scalar_one()

    assert parts() == 3
    with store.engine.begin() as connection:
        entry = recorded_files(connection)["etc/lists/a"]
        assert b"".join(read_content(connection, entry)) == b"x" * 25
    (node.paths.root / "etc/lists/a").unlink()
    node.put()
    assert parts() == 3
    (node.paths.root / "etc/lists/b").unlink()
    node.put()
    assert parts() == 0


def test_a_file_that_changes_meanwhile_is_not_recorded(node: Node, store: Record) -> None:
    node.write("etc/lists/a", b"one")
    seen = node.scan()
    node.write("etc/lists/a", b"two")
    with pytest.raises(FileChanged):
        node.recorder.put(seen)
    (node.paths.root / "etc/lists/a").unlink()
    with pytest.raises(FileChanged):
        node.recorder.put(seen)
    assert paths_of(store) == set()


def test_only_the_master_records_files(node: Node, store: Record) -> None:
    node.write("etc/lists/a", b"one")
    store.begin(SECOND)
    with pytest.raises(SecmonError) as failure:
        node.put()
    assert failure.value.code == 3051
    with pytest.raises(SecmonError):
        node.take()
    assert node.files() == {"etc/lists/a": b"one"}


def test_without_the_database(node: Node, store: Record, postgres: PostgresServer) -> None:
    node.write("etc/lists/a", b"one")
    seen = node.scan()
    postgres.stop()
    try:
        with pytest.raises(SecmonError) as failure:
            node.recorder.put(seen)
        assert failure.value.code == 3050
    finally:
        postgres.start()
    node.recorder.put(seen)
    assert paths_of(store) == {"etc/lists/a"}


def test_a_content_that_lacks_a_part(store: Record) -> None:
    with store.engine.begin() as connection, pytest.raises(LookupError):
        list(read_content(connection, Entry(b"\x01" * 32, 5)))


def test_differences_name_changed_new_and_missing_files() -> None:
    one, two = Entry(b"1" * 32, 1), Entry(b"2" * 32, 1)
    recorded = {"etc/rules/a": one, "etc/rules/b": one, "etc/rules/gone": one}
    here = {"etc/rules/a": one, "etc/rules/b": two, "etc/rules/new": two, "var/multigroups/x/merged.mg": two}
    assert differences(recorded, here) == {"etc/rules/b": two, "etc/rules/new": two, "etc/rules/gone": None}
