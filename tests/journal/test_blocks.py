"""Blocks: whole, torn, damaged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.journal.blocks import HEADER, MAX_BODY, Block, decode, encode, pieces

EVENTS = st.lists(st.binary(max_size=50), min_size=1, max_size=8)


@given(EVENTS, st.integers(0, 2**60), st.binary(max_size=10))
def test_round_trip(events: list[bytes], first: int, tail: bytes) -> None:
    assert decode(encode(first, 12.5, events) + tail) == Block(first, 12.5, events)


@given(EVENTS, st.data())
@settings(max_examples=100)
def test_incomplete_and_damaged_blocks_are_detected(events: list[bytes], data: st.DataObject) -> None:
    whole = encode(7, 1.0, events)
    assert decode(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None
    damaged = bytearray(whole)
    damaged[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    assert decode(bytes(damaged)) is None


def test_after() -> None:
    block = Block(10, 1.0, [b"a", b"b", b"c"])
    assert block.end == 13
    assert block.after(5) == block
    assert block.after(12) == Block(12, 1.0, [b"c"])


def test_pieces_fit_and_lose_nothing() -> None:
    events = [bytes([n]) * 65536 for n in range(200)]
    parts = pieces(events)
    assert len(parts) > 3
    assert [event for part in parts for event in part] == events
    assert all(len(encode(0, 0.0, part)) <= HEADER + MAX_BODY for part in parts)
    with pytest.raises(ValueError, match="one block"):
        encode(0, 0.0, events)
