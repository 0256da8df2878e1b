"""Records of the inventory's journal: only whole ones that name an internal decoder are events."""

from datetime import UTC, datetime

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from secmon.engine.decoders.decoder import INTERNAL
from secmon.engine.event import Event
from secmon.engine.input.decoded_events import MAX_FIELDS, read_decoded_event
from secmon.inventory.decoded_event import DecodedEvent, encode_event
from tests.engine.rules_kit import nodes

NOW = datetime(2024, 5, 2, 10, tzinfo=UTC)
RULESET = nodes("")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def read(data: bytes) -> Event | None:
    return read_decoded_event(data, RULESET, NOW)


@given(
    st.builds(
        DecodedEvent,
        agent=st.integers(0, 10**9 - 1),
        name=TEXT,
        location=TEXT,
        decoder=st.sampled_from(INTERNAL),
        fields=st.lists(st.tuples(TEXT, TEXT)),
        log=TEXT,
        first_seen=st.booleans(),
    )
)
def test_events_are_as_the_inventory_wrote_them(found: DecodedEvent) -> None:
    event = read(encode_event(found))
    assert event is not None
    assert int(event.agent_id) == found.agent
    assert (event.agent_name.decode(), event.location.decode()) == (found.name, found.location)
    assert event.log.decode() == event.full_log.decode() == found.log
    assert [(name, value.decode()) for name, value in event.dynamic] == found.fields
    assert event.first_seen == found.first_seen
    assert (event.decoder, event.category) == (RULESET.decoders.internal[found.decoder], "ossec")
    assert (event.program_name, event.timestamp, event.static) == (None, None, {})


@given(st.binary() | st.recursive(TEXT | st.integers(0, 9), st.lists).map(msgspec.msgpack.encode))
def test_other_records_are_no_events(data: bytes) -> None:
    assert read(data) is None


def test_decoders_of_the_ruleset_cannot_be_named() -> None:
    found = DecodedEvent(agent=1, name="a", location="x", decoder="node", fields=[], log="")
    assert read(encode_event(found)) is None


def test_fields_are_bounded() -> None:
    fields = [(f"f{number}", "x") for number in range(2 * MAX_FIELDS)] + [("n" * 2000, "x")]
    event = read(encode_event(DecodedEvent(agent=1, name="a", location="x", decoder="sca", fields=fields, log="")))
    assert event is not None
    assert len(event.dynamic) == MAX_FIELDS
