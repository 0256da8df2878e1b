"""Messages of file integrity: rows, scans, events, and what is dropped."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, select

from secmon.inventory.changes import Changes
from secmon.inventory.integrity.handler import handle_integrity
from secmon.inventory.message import MalformedMessage, UnsupportedMessage
from secmon.inventory.schema import fim_entries, fim_scans
from secmon.inventory.store import InventoryStore
from tests.inventory.integrity.reports import ADDED, DELETED, KEY_ADDED, MODIFIED, VALUE_MODIFIED, message, report


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    store = InventoryStore(tmp_path / "inventory.db")
    with store.write() as open_connection:
        yield open_connection
    store.close()


def handled(connection: Connection, *reports: Any) -> list[str]:
    """The decoders of the events that these reports have led to."""
    changes = Changes(connection)
    for data in reports:
        handle_integrity(report(data), changes)
    changes.flush_all()
    return [event.decoder for event in changes.events]


def entries(connection: Connection) -> list[tuple[str, int | None]]:
    return [(path, size) for path, size in connection.execute(select(fim_entries.c.full_path, fim_entries.c.size))]


def test_a_file_is_added_changed_and_deleted(connection: Connection) -> None:
    assert handled(connection, ADDED) == ["syscheck_new_entry"]
    assert entries(connection) == [("/srv/demo/bravo", 4)]
    assert handled(connection, MODIFIED) == ["syscheck_integrity_changed"]
    assert entries(connection) == [("/srv/demo/bravo", 9)]
    assert handled(connection, DELETED, DELETED) == ["syscheck_deleted"] * 2
    assert entries(connection) == []


def test_a_change_of_an_unknown_file_adds_it(connection: Connection) -> None:
    handled(connection, MODIFIED)
    assert entries(connection) == [("/srv/demo/bravo", 9)]


def test_entries_of_the_registry(connection: Connection) -> None:
    assert handled(connection, KEY_ADDED, VALUE_MODIFIED) == [
        "syscheck_registry_key_added",
        "syscheck_registry_value_modified",
    ]
    assert len(entries(connection)) == 2
    gone = [each | {"type": "deleted"} for each in (KEY_ADDED, VALUE_MODIFIED)]
    assert handled(connection, *gone) == ["syscheck_registry_key_deleted", "syscheck_registry_value_deleted"]
    assert entries(connection) == []


def test_the_registry_of_old_agents_counts_as_files(connection: Connection) -> None:
    old = KEY_ADDED | {"attributes": {"type": "registry"}, "version": 2}
    assert handled(connection, old) == ["syscheck_new_entry"]


def test_an_event_without_what_a_row_needs_is_for_the_rules_only(connection: Connection) -> None:
    untimed = {name: value for name, value in ADDED.items() if name != "timestamp"}
    unnamed = {name: value for name, value in KEY_ADDED.items() if name != "index"} | {"version": 2, "type": "deleted"}
    assert handled(connection, untimed, unnamed) == ["syscheck_new_entry", "syscheck_registry_key_deleted"]
    assert entries(connection) == []


@pytest.mark.parametrize(
    "data",
    [
        {},
        ADDED | {"path": None},
        ADDED | {"path": 5},
        ADDED | {"type": "renamed"},
        ADDED | {"type": ["added"]},
        ADDED | {"attributes": "x"},
        ADDED | {"attributes": {"type": "directory"}},
        ADDED | {"attributes": {"type": {}}},
        KEY_ADDED | {"index": None},
    ],
)
def test_events_that_are_dropped(connection: Connection, data: Any) -> None:
    with pytest.raises(MalformedMessage):
        handled(connection, data)


@pytest.mark.parametrize("body", ["", "nothing", "[]", "{", "{}", '{"type":"event"}', '{"type":1,"data":{}}'])
def test_messages_that_are_dropped(connection: Connection, body: str) -> None:
    with pytest.raises(MalformedMessage):
        handle_integrity(message(body), Changes(connection))


def test_scans(connection: Connection) -> None:
    changes = Changes(connection)
    for kind, timestamp in (("scan_start", 1700000000), ("scan_end", 1700000042), ("scan_start", 1700000100)):
        handle_integrity(report({"timestamp": timestamp}, kind), changes)
    handle_integrity(report({"timestamp": 1}, "another"), changes)
    assert connection.execute(select(fim_scans)).all() == [(4, 1700000100, 1700000042)]
    assert changes.events == []
    with pytest.raises(MalformedMessage):
        handle_integrity(report({"timestamp": "now"}, "scan_start"), changes)


@pytest.mark.parametrize(
    "body",
    [
        "syscheck-db-completed",
        "fim-db-start-first-scan",
        "fim-db-end-scan",
        "-1!0:0 /etc/passwd",
        "4:33188:0:0:c1:7b:root:root:1700000002:1002:27!0:: /srv/a b",
    ],
)
def test_texts_of_old_agents(connection: Connection, body: str) -> None:
    with pytest.raises(UnsupportedMessage):
        handle_integrity(message(body), Changes(connection))
