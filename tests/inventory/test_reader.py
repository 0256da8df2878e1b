"""The reader of agents' messages: each message is stored once, and leads to its events once, whatever happens."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from secmon.common.counters import Counters
from secmon.inventory.changes import Changes
from secmon.inventory.decoded_event import decode_event, event_of
from secmon.inventory.message import AgentMessage, MalformedMessage
from secmon.inventory.reader import InventoryReader
from secmon.inventory.schema import hotfixes
from secmon.inventory.store import InventoryStore
from secmon.journal.journal import JournalReader, JournalWriter
from tests.manual_clock import ManualClock

CLOCK = ManualClock()
SOURCE = b"[004] (web-4) any->syscollector"


class Installation:
    """A store, both journals, and a reader that can be killed: what is not committed is lost with it."""

    def __init__(self, folder: Path) -> None:
        self.messages = JournalWriter(folder / "events", CLOCK, limit=1 << 20, segment=1 << 16)
        self.events = JournalWriter(folder / "inventory", CLOCK, limit=1 << 20, segment=1 << 16)
        self.seen = JournalReader(folder / "inventory", "analysisd")
        self.store = InventoryStore(folder / "inventory.db")
        self.counters = Counters()
        self.folder = folder
        self.fails = False
        self.reader = self.start()

    def start(self) -> InventoryReader:
        return InventoryReader(
            self.store, self.folder / "events", self.events, {"d": self.handle}, clock=CLOCK, counters=self.counters
        )

    def restart(self) -> None:
        self.reader.close()
        self.reader = self.start()

    def handle(self, message: AgentMessage, changes: Changes) -> None:
        """Stores the body as a hotfix, and passes it on."""
        if message.body == "malformed":
            raise MalformedMessage("as the test wants it")
        checksum = None if message.body == "refused" else "sum"
        changes.save(
            hotfixes,
            {"agent_id": message.agent, "hotfix": message.body, "scan_id": message.number, "checksum": checksum},
        )
        changes.report(event_of(message, "syscollector", [("hotfix", message.body)], message.body))
        if self.fails and message.body == "last":
            raise OperationalError("INSERT", None, Exception("database is locked"))

    def send(self, *bodies: str) -> None:
        self.messages.append([b"d:" + SOURCE + b":" + body.encode() for body in bodies])

    def rows(self) -> list[tuple[str, int]]:
        with self.store.read() as connection:
            rows = connection.execute(select(hotfixes.c.hotfix, hotfixes.c.scan_id).order_by(hotfixes.c.scan_id))
            return [(name, number) for name, number in rows]

    def reported(self) -> list[str]:
        return [decode_event(event).log for block in self.seen.read(limit=1 << 20) for event in block.events]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path)
    yield made
    made.reader.close()
    made.seen.close()
    made.messages.close()
    made.events.close()
    made.store.close()


def test_messages_are_stored_and_passed_on_in_order(node: Installation) -> None:
    node.messages.append([b"1:[004] (web-4) any->/var/log/syslog:a log line"])
    node.send("one", "two", "malformed", "three")
    assert node.reader.step() == (True, [])
    assert node.rows() == [("one", 1), ("two", 2), ("three", 4)]
    assert node.reported() == ["one", "two", "three"]
    assert node.counters.snapshot().items() >= {"inventory.malformed": 1, "inventory.messages": 4}.items()
    assert node.reader.step() == (False, ())


def test_a_kill_before_the_commit_neither_loses_nor_repeats(
    node: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.send("one", "two")
    with monkeypatch.context() as patch:
        patch.setattr("secmon.inventory.reader._write_position", _full_disk)
        with pytest.raises(OSError, match="full"):
            node.reader.step()
    assert node.rows() == []
    assert node.reported() == ["one", "two"]
    node.restart()
    node.send("three")
    node.reader.step()
    assert [name for name, _ in node.rows()] == ["one", "two", "three"]
    assert node.reported() == ["three"]


def test_a_kill_after_the_commit_repeats_nothing(node: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    node.send("one")
    with monkeypatch.context() as patch:
        patch.setattr(JournalReader, "commit", _full_disk)
        with pytest.raises(OSError, match="full"):
            node.reader.step()
    node.restart()
    node.send("two")
    node.reader.step()
    assert node.rows() == [("one", 0), ("two", 1)]
    assert node.reported() == ["one", "two"]


def test_a_failed_transaction_is_tried_again(node: Installation) -> None:
    node.send("one", "last")
    node.fails = True
    with pytest.raises(OperationalError):
        node.reader.step()
    node.fails = False
    node.send("two")
    node.reader.step()
    assert [name for name, _ in node.rows()] == ["one", "last"]
    node.reader.step()
    assert node.reported() == ["one", "last", "two"]


def test_a_row_that_the_store_refuses_costs_itself_only(node: Installation) -> None:
    node.send("one", "refused", "two")
    node.reader.step()
    assert [name for name, _ in node.rows()] == ["one", "two"]
    assert node.reported() == ["one", "two"]
    assert node.counters.snapshot()["inventory.refused_by_store"] == 1


def test_a_new_journal_is_read_from_its_beginning(tmp_path: Path, node: Installation) -> None:
    node.send("one", "two")
    node.reader.step()
    node.reader.close()
    node.messages.close()
    for file in (tmp_path / "events").iterdir():
        file.unlink()
    node.messages = JournalWriter(tmp_path / "events", CLOCK, limit=1 << 20, segment=1 << 16)
    node.send("three")
    node.reader = node.start()
    node.reader.step()
    assert {name for name, _ in node.rows()} == {"one", "two", "three"}


def test_nothing_is_read_while_the_analysis_is_behind(node: Installation) -> None:
    node.events.append([b"x" * 60_000] * 20)
    node.send("one")
    assert node.reader.step() == (False, ())
    assert node.reader.waits_for_analysis
    node.seen.read(limit=2 << 20)
    node.seen.commit(node.seen.next)
    assert node.reader.step()[0]
    assert [name for name, _ in node.rows()] == ["one"]


def _full_disk(*_: object) -> None:
    raise OSError(28, "the disk is full")
