"""The key file and the registry agree in the end, whichever is written."""

import logging
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection

from secmon.agents.registry import registry
from secmon.agents.registry.entries import entries, tombstones
from secmon.agents.registry.key_file import KeyFileChanges, MasterKeyFile, WorkerKeyFile, times_file, write_key_files
from secmon.agents.registry.registry import New
from secmon.agents.registry.store import AgentStore
from secmon.common.paths import Paths
from tests.manual_clock import ManualClock


class World:
    """An installation with a registry, its key file, and another writer of the file."""

    def __init__(self, folder: Path) -> None:
        self.paths = Paths(folder)
        self.paths.etc.mkdir()
        self.clock = ManualClock()
        self.store = AgentStore(self.paths.agents_db, durable=False)
        self.open()

    def open(self) -> None:
        """As after a restart."""
        self.keys = MasterKeyFile(self.store, self.paths, self.clock)

    def settle(self) -> KeyFileChanges | None:
        """Some seconds go by."""
        found = [self.keys.poll() for _ in range(3)]
        return next((one for one in found if one is not None), None)

    def write(self, change: Callable[[Connection], object]) -> None:
        with self.store.write() as connection:
            change(connection)

    def add(self, *names: str) -> None:
        news = [New(name=name, key=f"key-{name}") for name in names]
        self.write(lambda connection: [registry.add(connection, new, now=1) for new in news])

    @property
    def text(self) -> str:
        return self.paths.client_keys.read_text()

    def edit(self, change: Callable[[str], str]) -> None:
        """As an editor does: a new file in the place of the old one."""
        new = self.paths.etc / "new"
        new.write_text(change(self.text))
        os.replace(new, self.paths.client_keys)

    def lines(self) -> list[str]:
        with self.store.read() as connection:
            return [one.line for one in entries(connection)]

    def removed(self) -> list[tuple[int, int]]:
        with self.store.read() as connection:
            return [(one.id, one.purged) for one in tombstones(connection)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.store.close()


def test_the_file_follows_the_registry(world: World) -> None:
    world.settle()
    assert world.text == ""
    world.add("a1", "a2", "a3")
    world.write(lambda connection: registry.remove(connection, [2]))
    world.write(lambda connection: registry.remove(connection, [3], purge=True))
    assert world.settle() is None
    assert world.text == "001 a1 any key-a1\n002 !a2 any key-a2\n"
    assert world.paths.client_keys.stat().st_mode & 0o777 == 0o640
    assert times_file(world.paths).read_text().startswith("001 a1 any ")
    before = world.paths.client_keys.stat()
    world.write(lambda connection: registry.assign(connection, {1: ["x"]}))
    world.settle()
    assert world.paths.client_keys.stat() == before


def test_an_existing_file_is_imported(world: World) -> None:
    world.paths.client_keys.write_text("007 a7 10.0.0.0/8 k7\n009 !a9 any k9\n")
    assert str(world.settle()) == "added 007, buried 009"
    world.add("next")
    assert world.lines() == ["007 a7 10.0.0.0/8 k7", "010 next any key-next"]


def test_every_kind_of_change_is_applied(world: World) -> None:
    world.add("a1", "a2", "a3", "a4", "a5")
    world.write(lambda connection: registry.remove(connection, [5]))
    world.settle()

    def change(text: str) -> str:
        lines = text.splitlines()
        return "\n".join(["001 a1 10.0.0.1 other", lines[1].replace("a2", "!a2"), lines[3], "012 new ::1 kn", ""])

    world.edit(change)
    assert str(world.settle()) == "added 012, changed 001, removed 002, 003, purged 005"
    assert world.lines() == [
        "001 a1 10.0.0.1 other",
        "004 a4 any key-a4",
        "012 new 0000:0000:0000:0000:0000:0000:0000:0001 kn",
    ]
    assert world.removed() == [(2, 0), (3, 0), (5, 1)]
    world.edit(lambda text: text.replace("!a2", "a2"))
    assert str(world.settle()) == "added 002"
    assert world.settle() is None


def test_names_may_be_swapped_but_not_shared(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.add("a1", "a2", "a3")
    world.settle()
    world.edit(lambda text: text.replace(" a1 ", " x ").replace(" a2 ", " a1 ").replace(" x ", " a2 "))
    assert str(world.settle()) == "changed 001, 002"
    world.add("a4")
    with caplog.at_level(logging.ERROR):
        world.edit(lambda text: text.replace("003 a3", "003 a4"))  # not written yet, so unknown to its reader
        assert world.settle() is not None
    assert "agent 003 cannot be called a4" in caplog.text
    assert [line.split()[1] for line in world.lines()] == ["a2", "a1", "a3", "a4"]


@pytest.mark.parametrize("keep", [0, 100, 160], ids=["empty", "cut in a line", "cut at a line"])
def test_a_file_cut_short_removes_no_agent(world: World, keep: int, caplog: pytest.LogCaptureFixture) -> None:
    world.add(*(f"a{number:02}" for number in range(20)))
    world.settle()
    before = world.text
    with caplog.at_level(logging.ERROR):
        world.edit(lambda text: text[:keep])
        taken = world.settle()
    assert taken is not None
    assert taken.put_back
    assert world.text == before
    kept = list((world.paths.root / "backup/agents").iterdir())
    assert [one.read_text() for one in kept] == [before[:keep]]
    assert "mark their lines with !" in caplog.text


@pytest.mark.parametrize("cut", [1, 3, 8, 13, 16], ids=str)
def test_a_last_line_without_its_end_changes_nothing(world: World, cut: int, caplog: pytest.LogCaptureFixture) -> None:
    world.add("a1", "a2")
    world.settle()
    before, agents = world.text, world.lines()
    with caplog.at_level(logging.WARNING):
        world.edit(lambda text: text[:-cut])
        taken = world.settle()
    assert (world.lines(), world.removed(), world.text) == (agents, [], before)
    assert taken is not None
    assert taken.changed + taken.removed + taken.purged == []
    kept = list((world.paths.root / "backup/agents").iterdir())
    assert [one.read_text() for one in kept] == [before[:-cut]]
    assert "the last line has no line feed" in caplog.text


def test_whole_lines_before_a_cut_one_are_applied(world: World) -> None:
    world.add("a1", "a2")
    world.settle()
    world.edit(lambda text: f"{text.replace('key-a1', 'other')}003 a3 any key-a3\n004 a4 any key-")
    assert str(world.settle()) == "added 003, changed 001"
    assert world.text == "001 a1 any other\n002 a2 any key-a2\n003 a3 any key-a3\n"


def test_a_file_cut_within_removed_lines_purges_no_agent(world: World) -> None:
    world.add("a1", "a2")
    world.settle()
    world.edit(lambda text: text.replace(" a", " !a").replace(" !any", " any"))
    world.settle()
    world.edit(lambda text: text[: text.index("002") + 9])
    world.settle()
    assert world.removed() == [(1, 0), (2, 0)]


def test_a_deleted_file_is_written_again(world: World) -> None:
    world.add("a1")
    world.settle()
    world.paths.client_keys.unlink()
    world.settle()
    assert world.text == "001 a1 any key-a1\n"


def test_many_can_be_removed_by_marks(world: World) -> None:
    world.add(*(f"a{number}" for number in range(20)))
    world.settle()
    world.edit(lambda text: text.replace(" a", " !a").replace(" !any", " any"))
    taken = world.settle()
    assert taken is not None
    assert (len(taken.removed), world.lines()) == (20, [])


def test_both_sides_write_at_once(world: World) -> None:
    world.add("a1", "a2")
    world.settle()
    world.add("a3")
    world.edit(lambda text: text.replace("001 a1", "001 !a1") + "003 other any k\n")
    world.write(lambda connection: registry.remove(connection, [2]))
    assert str(world.settle()) == "removed 001"  # 003 is taken: the line of the registry counts
    assert world.lines() == ["003 a3 any key-a3"]
    assert world.text == "003 a3 any key-a3\n001 !a1 any key-a1\n002 !a2 any key-a2\n"


def test_a_restart_at_any_moment_restores_no_removed_agent(world: World) -> None:
    world.add("a1", "a2")
    world.settle()
    copy = world.paths.agents_db.parent / "client.keys.written"
    old = copy.read_text()
    world.add("a3")
    world.settle()
    copy.write_text(old)  # as if killed between file and copy
    world.write(lambda connection: registry.remove(connection, [3], purge=True))
    world.open()
    world.settle()
    assert world.text == "001 a1 any key-a1\n002 a2 any key-a2\n"
    copy.unlink()
    world.write(lambda connection: registry.remove(connection, [2], purge=True))
    world.open()
    world.settle()
    assert world.text == "001 a1 any key-a1\n"


def test_changes_while_the_daemon_was_stopped_are_seen_after_a_restart(world: World) -> None:
    world.add("a1", "a2", "a3")
    world.settle()
    world.edit(lambda text: text.replace("002 a2 any key-a2\n", ""))
    world.open()
    assert str(world.settle()) == "removed 002"


def test_a_writer_that_has_not_finished_is_waited_for(world: World) -> None:
    world.add("a1")
    world.settle()
    for tail in ("002 ", "a2 ", "any ", "k2\n"):
        world.edit(partial("{1}{0}".format, tail))
        assert world.keys.poll() is None
    assert str(world.settle()) == "added 002"


def test_a_worker_writes_when_the_registry_has_changed(world: World) -> None:
    clock = world.clock
    copy = WorkerKeyFile(world.store, world.paths, clock)
    world.add("a1")
    copy.poll()
    assert world.text == "001 a1 any key-a1\n"
    world.add("a2")
    clock.advance(60)
    copy.poll()
    assert world.text.count("\n") == 2


def test_a_worker_writes_only(world: World) -> None:
    world.add("a1")
    assert write_key_files(world.store, world.paths) == 1
    world.edit(lambda _: "")
    write_key_files(world.store, world.paths)
    assert world.text == "001 a1 any key-a1\n"
