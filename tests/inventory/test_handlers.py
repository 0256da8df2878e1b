"""All handlers behind the reader: a bad message costs itself only, whatever is around it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from secmon.common.counters import Counters
from secmon.inventory.decoded_event import decode_event
from secmon.inventory.handlers import HANDLERS
from secmon.inventory.reader import InventoryReader
from secmon.inventory.schema import benchmark_results, rootcheck_findings, sca_checks
from secmon.inventory.store import InventoryStore
from secmon.journal.journal import JournalReader, JournalWriter
from tests.inventory.assessment.assessed_agent import check, summary
from tests.manual_clock import ManualClock

CLOCK = ManualClock()
HOSTILE = [
    b"p:[004] (web-4) any->sca:" + body
    for body in (
        b'{"type":"check","id":9223372036854775808,"policy":"","policy_id":"a","check":{"id":1,"title":""}}',
        b'{"type":"check","id":1,"policy":"","policy_id":"\\ud800","check":{"id":1,"title":""}}',
        b'{"type":"summary","score":1e999}',
        b'{"type":"policies","policies":' + b"[" * 30_000 + b"}",
        b"\xff\0",
        b"",
    )
] + [
    b"9:[004] (web-4) any->rootcheck:",
    b'e:[004] (web-4) any->wodle_cis-cat:{"type":[],"cis":{}}',
    b'e:[004] (web-4) any->wodle_cis-cat:{"type":"scan_info","cis":{},"scan_id":' + b"9" * 60_000 + b"}",
]


@pytest.fixture
def journals(tmp_path: Path) -> Iterator[tuple[JournalWriter, JournalWriter]]:
    messages, events = (
        JournalWriter(tmp_path / name, CLOCK, limit=1 << 20, segment=1 << 16) for name in ("messages", "events")
    )
    yield messages, events
    messages.close()
    events.close()


def test_bad_messages_are_counted_and_the_others_stored(
    tmp_path: Path, journals: tuple[JournalWriter, JournalWriter]
) -> None:
    messages, events = journals
    store, counters = InventoryStore(tmp_path / "inventory.db"), Counters()
    seen = JournalReader(tmp_path / "events", "analysisd")
    reader = InventoryReader(store, tmp_path / "messages", events, HANDLERS, clock=CLOCK, counters=counters)
    good = [
        b"p:[004] (web-4) any->sca:" + json.dumps(summary({1: "failed"})).encode(),
        b"p:[004] (web-4) any->sca:" + json.dumps(check(1, "failed", title="a\0b")).encode(),
        b"9:[004] (web-4) any->rootcheck:a\xff\0b",
        b'e:[004] (web-4) any->wodle_cis-cat:{"type":"scan_info","scan_id":1,"cis":{"pass":1}}',
    ]
    try:
        messages.append([one for pair in zip(good * 3, HOSTILE, strict=False) for one in pair])
        assert reader.step() == (True, [(4, "sca-dump:demo:0")])
        assert counters.snapshot().items() >= {"inventory.messages": 18, "inventory.malformed": len(HOSTILE)}.items()
        decoders = [decode_event(event).decoder for block in seen.read(limit=1 << 20) for event in block.events]
        assert decoders == ["sca", "sca", "rootcheck", "ciscat", "rootcheck", "ciscat"]
        with store.read() as connection:
            for table in (sca_checks, rootcheck_findings, benchmark_results):
                assert connection.execute(select(func.count()).select_from(table)).scalar_one() == 1
    finally:
        seen.close()
        reader.close()
        store.close()
