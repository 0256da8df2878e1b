"""Answers of sources, good and bad ones; no cause holds a key."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.agentlink.key_request.answer import is_whole, read_answer
from secmon.agentlink.key_request.failures import Failed, NoKey, Refused
from secmon.agents.names import key_hash
from secmon.agents.registry.registry import New

KEY = "0a1b2c3d4e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcdef"
AGENT = {"id": "007", "name": "web-07", "ip": "any", "key": KEY}


def answer(**changes: Any) -> bytes:
    return json.dumps({"error": 0, "data": AGENT | changes}).encode()


def test_an_agent() -> None:
    held = key_hash(7, "web-07", KEY)
    assert read_answer(answer()) == New(id=7, name="web-07", address="any", key=KEY, key_hash=held)
    assert read_answer(b"\n" + answer(ip="10.0.0.0/255.255.0.0") + b"\n\0").address == "10.0.0.0/16"
    assert read_answer(answer(extra=1)).id == 7


def test_a_refusal_has_its_reason_and_hides_possible_keys() -> None:
    with pytest.raises(Refused, match=r"^error 3: no agent  \(hidden\)$"):
        read_answer(json.dumps({"error": 3, "message": f"no agent\n\x1b{KEY}"[:9] + "\n" + KEY, "data": "x"}).encode())
    with pytest.raises(Refused, match=r"^error 1: no message$"):
        read_answer(b'{"error": 1, "message": null}')
    with pytest.raises(Refused) as caught:
        read_answer(json.dumps({"error": 1, "message": "a b " * 1000}).encode())
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no",
        b"[]",
        b"{}",
        b'{"error": "0"}',
        b'{"error": 0}',
        b'{"error": 0, "data": null}',
        b'{"error": 0, "data": {"id": "007"}}',
        b'{"error": 0, "data": "' + b"\xff" + b'"}',
        b'{"error": 0, "x": ' + b"[" * 60_000,
        answer(id=7),
        answer(id=""),
        answer(id="-1"),
        answer(id="123456789"),
        answer(name="a b"),
        answer(name="!web"),
        answer(name=""),
        answer(name="x" * 128),
        answer(ip=""),
        answer(ip="10.0.0.0/99"),
        answer(ip="here"),
        answer(key=""),
        answer(key=KEY + " 008 evil any x"),
        answer(key=KEY + "\n008"),
        answer(key="x" * 128),
        answer(key="k\x00k"),
        answer(key="schlüssel"),
    ],
)
def test_invalid_answers(data: bytes) -> None:
    with pytest.raises(Failed) as caught:
        read_answer(data)
    assert KEY[:32] not in str(caught.value)


@settings(max_examples=150)
@given(
    st.binary(max_size=200)
    | st.fixed_dictionaries({}, optional={k: st.text() for k in AGENT}).map(lambda d: answer(**d))
)
def test_any_bytes_yield_an_agent_or_a_reason(data: bytes) -> None:
    try:
        new = read_answer(data)
    except NoKey as error:
        cause = str(error)
    else:
        cause = "none"
        assert not set(" \n'") & set(f"{new.name}{new.address}{new.key}")
    assert cause.isprintable()


def test_the_end_of_an_answer() -> None:
    data = answer()
    assert not any(is_whole(data[:end]) for end in range(len(data)))
    assert is_whole(data)
    assert is_whole(data + b"\n\0")
    assert not is_whole(b"[" * 60_000 + b"}")
