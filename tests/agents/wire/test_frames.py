"""Frames in every way a stream can be cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.agents.wire.errors import MessageError
from secmon.agents.wire.frames import MAX_PAYLOAD, Unframer, frame, split_id

PAYLOADS = [b"a", b"#ping", b"x" * 300, b"!001!:abc"]


def test_split_at_every_byte() -> None:
    stream = b"".join(map(frame, PAYLOADS))
    for cut in range(len(stream) + 1):
        unframer = Unframer()
        assert unframer.feed(stream[:cut]) + unframer.feed(memoryview(stream)[cut:]) == PAYLOADS
        assert (unframer.buffered, unframer.broken) == (0, None)


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=12), st.data())
@settings(max_examples=100)
def test_any_pieces_give_the_same_payloads(payloads: list[bytes], data: st.DataObject) -> None:
    stream, unframer, found = b"".join(map(frame, payloads)), Unframer(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += unframer.feed(stream[:size])
        stream = stream[size:]
    assert found == payloads


@pytest.mark.parametrize(("length", "reason"), [(0, "empty"), (MAX_PAYLOAD + 1, "format"), (0xFFFFFFFF, "format")])
def test_refused_lengths_end_the_stream(length: int, reason: str) -> None:
    unframer = Unframer()
    assert unframer.feed(frame(b"good") + length.to_bytes(4, "little") + frame(b"never")) == [b"good"]
    assert unframer.broken == reason
    assert unframer.feed(frame(b"never")) == []
    assert unframer.buffered == 0


def test_at_most_one_frame_is_buffered() -> None:
    unframer, largest = Unframer(), frame(b"x" * MAX_PAYLOAD)
    assert unframer.feed(largest[:-1]) == []
    assert unframer.buffered == MAX_PAYLOAD + 3
    assert unframer.feed(largest[-1:]) == [b"x" * MAX_PAYLOAD]


def test_ids() -> None:
    assert split_id(b"!0017!:x") == ("0017", b":x")
    assert split_id(b"#AES:x") == (None, b"#AES:x")
    assert split_id(b"!1!") == ("1", b"")
    for broken in (b"!", b"!!", b"!1", b"!1a!:", "!²!:".encode()):
        with pytest.raises(MessageError) as caught:
            split_id(broken)
        assert caught.value.reason == "format"
