"""Frames: every payload arrives whole, however the stream is cut."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.common.ipc.framing import FrameTooLong, frame, read_frame, take_frames

PAYLOADS = st.lists(st.binary(max_size=300), max_size=6)


@given(payloads=PAYLOADS, cuts=st.lists(st.integers(0, 2000), max_size=12))
def test_any_cut_of_the_stream_gives_the_payloads_in_order(payloads: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(frame, payloads))
    edges = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    received = bytearray()
    found: list[bytes] = []
    for start, end in pairwise(edges):
        received += stream[start:end]
        found += take_frames(received)
    assert found == payloads
    assert not received


@given(payload=st.binary(max_size=300), missing=st.integers(1, 303))
def test_an_incomplete_frame_is_kept(payload: bytes, missing: int) -> None:
    part = frame(payload)[: -min(missing, len(payload) + 4)]
    received = bytearray(part)
    assert list(take_frames(received)) == []
    assert received == part


async def read_all(stream: bytes, limit: int) -> list[bytes]:
    reader = asyncio.StreamReader()
    reader.feed_data(stream)
    reader.feed_eof()
    found = []
    while (payload := await read_frame(reader, limit)) is not None:
        found.append(payload)
    return found


@given(payloads=PAYLOADS)
def test_a_stream_gives_the_same_payloads(payloads: list[bytes]) -> None:
    assert asyncio.run(read_all(b"".join(map(frame, payloads)), 300)) == payloads


@given(payloads=PAYLOADS, payload=st.binary(max_size=300), missing=st.integers(1, 303))
def test_a_stream_that_ends_within_a_frame_is_an_error(payloads: list[bytes], payload: bytes, missing: int) -> None:
    last = frame(payload)
    part = last[: max(1, len(last) - missing)]
    with pytest.raises(ConnectionResetError):
        asyncio.run(read_all(b"".join(map(frame, payloads)) + part, 300))


@given(size=st.integers(101, 2**32 - 1))
def test_a_frame_beyond_the_limit_is_refused_before_it_is_read(size: int) -> None:
    with pytest.raises(FrameTooLong, match=f"{size} bytes"):
        asyncio.run(read_all(size.to_bytes(4, "little"), 100))
    assert asyncio.run(read_all(frame(bytes(100)), 100)) == [bytes(100)]


def test_the_bytes_of_a_frame() -> None:
    assert frame(b"{}") == b"\x02\0\0\0{}"
