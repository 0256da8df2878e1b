"""JSON of events: all that producers get wrong is read, and what is right is read as the json module reads it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.engine.decoders.json_text import CUT_FROM, MAX_DEPTH, _repaired, read_object, to_bytes
from secmon.engine.event import printable
from tests.engine.decoders.kit import decoded, decoded_bytes, fields
from tests.engine.decoders.test_decoder_search import JSON
from tests.offenders import Offenders

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def as_dict(value: Any) -> Any:
    if isinstance(value, tuple):
        return {key: as_dict(one) for key, one in value}
    return [as_dict(one) for one in value] if isinstance(value, list) else value


@given(st.dictionaries(st.text(), VALUES, max_size=4), st.booleans(), st.sampled_from([None, 1]))
def test_json_is_read_as_it_is(value: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert as_dict(read_object(text.encode("utf-8", "surrogatepass") + b" and more")) == value
    assert json.loads(_repaired(text)) == value


@given(st.binary(max_size=60))
def test_any_bytes_are_an_object_or_none(text: bytes) -> None:
    for one in (text, b"{" + text, b'{"a":' + text + b"}", b'{"' + text + b'":"' + text + b'"}'):
        found = read_object(one)
        assert found is None or isinstance(found, tuple)


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_any_string_has_bytes(text: str) -> None:
    assert bool(printable(to_bytes(text)).encode()) == bool(text)
    if not any("\ud800" <= one <= "\udfff" for one in text):
        assert to_bytes(text) == text.encode()


@given(st.binary(max_size=40))
def test_bytes_come_back(data: bytes) -> None:
    text = json.dumps({"k": data.decode("utf-8", "surrogateescape")}, ensure_ascii=False)
    found = read_object(text.encode("utf-8", "surrogateescape"))
    assert found is not None
    assert to_bytes(found[0][1]) == data


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (b'{"a":"x\x01\ty"}', [("a", b"x\x01\ty")]),
        (b'{"a":007,"b":-00.50,"c":[01, 1.]}', [("a", b"7"), ("b", b"-0.500000"), ("c", b"[1, 1]")]),
        (b'{"a":1,"A":2,"a":3}', [("a", b"1"), ("A", b"2"), ("a", b"3")]),
        (b'{"srcip":"192.0.2.1","srcip":"192.0.2.2"}', [("srcip", b"192.0.2.1")]),
        (b'{"a":{"b":1},"a":{"c":2}}', [("a.b", b"1"), ("a.c", b"2")]),
        (b'{"a\xff":"b\xff"}', [(r"a\xff", b"b\xff")]),
        (b'{"a\\ud800":"\\ud800"}', [(r"a\xed\xa0\x80", b"\xed\xa0\x80")]),
        (b'{"b\\ud83d\\ude00":"\xff\\ud800"}', [("b\U0001f600", b"\xff\xed\xa0\x80")]),
        (rb'{"a":"\x41\q\u12","b":1}', [("a", rb"\x41\q\u12"), ("b", b"1")]),
        (b'{"a":1\x0b,\x0c"b":2}', [("a", b"1"), ("b", b"2")]),
        (b'{"a":' + b"9" * 5000 + b',"b":1}', [("a", b"inf"), ("b", b"1")]),
        (b'{"a":' + b"9" * 350 + b',"b":-1e999}', [("a", b"inf"), ("b", b"-inf")]),
    ],
)
def test_what_producers_get_wrong(log: bytes, expected: list[tuple[str, bytes]]) -> None:
    event = decoded_bytes(JSON, log)
    assert [*event.static.items(), *event.dynamic] == expected


def test_of_a_name_that_occurs_twice_both_are_in_the_event() -> None:
    event = decoded_bytes(JSON, b'{"user":"ana","user":"root"}')
    assert event.dynamic == [("user", b"ana"), ("user", b"root")]
    assert event.dynamic_value("user") == b"ana"


@pytest.mark.parametrize("opening", [b"[", b'{"k":', b'[{"k":'])
@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH + 1, 900, 20_000])
def test_depth_hides_nothing(opening: bytes, depth: int) -> None:
    closing = opening.translate(bytes.maketrans(b"[{", b"]}"), b'"k:')[::-1]
    event = decoded_bytes(JSON, b'{"deep":' + opening * depth + b"1" + closing * depth + b',"after":1}')
    assert event.dynamic_value("after") == b"1"
    assert any(name.startswith("deep") for name, _ in event.dynamic)


@pytest.mark.parametrize("log", ['{"a":1', '{"a":nope}', '{"a" 1}', '{"a":"x}', '{"a":1-2}', '{"a":1,}', '{"a":0x1}'])
def test_what_is_no_json(log: str) -> None:
    assert fields(decoded(JSON, log)) == {}


def test_a_long_object_that_was_cut_keeps_what_is_whole() -> None:
    """Who makes one value as long as a message may be cannot hide what comes before it."""
    members = b'{"event":"break-in","n":[1,{"k":"v"}],"o":{"p":true,"q":{"r":"s"}},"long":"' + b"x, y}" * CUT_FROM
    event = decoded_bytes(JSON, members)
    assert event.dynamic == [
        ("event", b"break-in"), ("n", b'[1, {\n\t\t"k":\t"v"\n\t}]'), ("o.p", b"true"), ("o.q.r", b"s")
    ]  # fmt: skip
    with Offenders() as offenders:
        for end in range(21, 80):
            with offenders.row("cut at", end):
                event = decoded_bytes(JSON, b'{"pad":"' + b"x" * CUT_FROM + b'",' + members[1:end])
                assert event.dynamic[:2] == [("pad", b"x" * CUT_FROM), ("event", b"break-in")]


def test_a_cut_below_the_deepest_level() -> None:
    assert read_object(b'{"deep":' + b"[" * (CUT_FROM - 20)) is None
    event = decoded_bytes(JSON, b'{"event":1,"deep":' + b'{"k":' * 5000 + b"1,")
    assert event.dynamic_value("event") == b"1"


def test_events_have_as_many_fields_as_the_settings_say() -> None:
    event = decoded_bytes(JSON, b"{" + b",".join(b'"k%d":1' % number for number in range(400)) + b',"id":7}')
    assert (len(event.dynamic), event.static) == (event.field_limit, {"id": b"7"})
