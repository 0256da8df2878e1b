"""From the bytes of an agent to the alert: whatever they say, nothing fails, and each record is one line of JSON."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from secmon.engine.engine import Engine, Verdict
from secmon.engine.input.decoded_events import read_decoded_event
from secmon.engine.memory.state import State
from secmon.engine.output.document import Documents, Origin, encode
from secmon.engine.output.text_records import alert_record, archive_line
from secmon.inventory.changes import Changes
from secmon.inventory.decoded_event import encode_event
from secmon.inventory.integrity.handler import handle_integrity
from secmon.inventory.message import MalformedMessage, UnsupportedMessage, read_message
from secmon.inventory.store import InventoryStore
from tests.engine.rules_kit import NODE_DECODER, START, ruleset
from tests.inventory.integrity.reports import ALL, MODIFIED

RULES = """<group name="syscheck,"><rule id="550" level="7"><category>ossec</category>
<decoded_as>syscheck_integrity_changed</decoded_as><description>$(file) $(user_name)</description></rule></group>"""
HEAD = b"8:[004] (web-4) any->syscheck:"

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ["\x00", "\n\n** Alert 1.1", "event", "a (allowed): B, c", "'", "1" * 400, "\\", "syscheck"]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def changed(draw: st.DrawFn, report: dict[str, Any]) -> dict[str, Any]:
    """``report`` with some members, at any depth, replaced by anything."""
    made = dict(report)
    for name in draw(st.lists(st.sampled_from(sorted(made)), max_size=3)):
        inner = made[name]
        deeper = isinstance(inner, dict) and inner and draw(st.booleans())
        made[name] = draw(changed(inner)) if deeper else draw(ANYTHING)
    return made


REPORTS = st.sampled_from(ALL).flatmap(changed).map(lambda data: json.dumps({"type": "event", "data": data}).encode())


class Node:
    """The handler with a store, and the rules."""

    def __init__(self, store: InventoryStore) -> None:
        self.store = store
        self.engine = Engine(ruleset(NODE_DECODER, RULES), State.private(store.path.parent), host=b"mgr")
        self.documents = Documents(Origin("mgr"))

    def alerts(self, body: bytes) -> list[Any]:
        """The alerts, after all was stored."""
        message = read_message(HEAD + body, 0.0, 0)
        assert message is not None
        with self.store.write() as connection:
            changes = Changes(connection)
            try:
                handle_integrity(message, changes)
            except (MalformedMessage, UnsupportedMessage):
                assert changes.events == []
            changes.flush_all()
        return [self._alert(encode_event(event)) for event in changes.events]

    def _alert(self, record: bytes) -> Any:
        event = read_decoded_event(record, self.engine.ruleset, START)
        assert event is not None
        verdict: Verdict = self.engine.evaluate(event)
        archive_line(event)
        if verdict.rule is not None:
            assert alert_record(verdict, "1.0").count(b"\n\n") == 1
        line = encode(self.documents.of(verdict, "1.0"))
        assert b"\n" not in line
        return json.loads(line)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    store = InventoryStore(tmp_path_factory.mktemp("fim") / "inventory.db")
    yield Node(store)
    store.close()


def test_a_report_becomes_an_alert(node: Node) -> None:
    (alert,) = node.alerts(json.dumps({"type": "event", "data": MODIFIED}).encode())
    assert (alert["rule"]["id"], alert["rule"]["description"]) == ("550", "/srv/demo/bravo root")
    assert (alert["agent"]["id"], alert["location"]) == ("004", "syscheck")
    assert alert["syscheck"]["size_after"] == "9"


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(REPORTS | st.binary() | REPORTS.flatmap(lambda data: st.integers(0, len(data)).map(lambda end: data[:end])))
def test_nothing_fails(node: Node, body: bytes) -> None:
    for alert in node.alerts(body):
        assert alert["syscheck"]["event"] in ("added", "modified", "deleted")


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"event","data":' * 10_000,
        b'{"type":"event","data":{"a":' + b"[" * 30_000,
        b'{"type":"scan_start","data":{"timestamp":1e400}}',
        b'{"type":"scan_end","data":{"timestamp":-1e300}}',
        b'{"type":"event","data":{"path":"\\ud800","type":"added","attributes":{"type":"file"}}}',
    ],
)
def test_hostile_numbers_and_depths(node: Node, body: bytes) -> None:
    assert node.alerts(body) == []
