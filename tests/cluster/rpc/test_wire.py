"""Results cross the wire unchanged, whatever their size, and small ones in one message."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.wire import (
    ITEMS_PER_CHUNK,
    MAX_ANSWER_BYTES,
    MAX_CHUNK_BYTES,
    MAX_STRUCTURE_BYTES,
    pack_call,
    pack_failure,
    pack_result,
    unpack_call,
    unpack_result,
)
from secmon.common.calls import Call
from secmon.common.errors import SecmonError
from secmon.common.identity import node_identity
from secmon.common.outcome import Outcome, Plain, Result

pytestmark = pytest.mark.anyio
ITEMS = st.lists(
    st.dictionaries(st.text(max_size=8), st.integers(-5, 5) | st.text(max_size=8), max_size=3), max_size=30
)


async def _stream(chunks: list[pb.ExecuteChunk]) -> AsyncIterator[pb.ExecuteChunk]:
    for chunk in chunks:
        yield pb.ExecuteChunk.FromString(chunk.SerializeToString())


async def _across(result: Result) -> tuple[Result, list[pb.ExecuteChunk]]:
    chunks = list(pack_result(result))
    return await unpack_result(_stream(chunks)), chunks


@settings(max_examples=100)
@given(items=ITEMS, more=st.integers(0, 3))
async def test_small_outcomes_cross_in_one_message(items: list[Any], more: int) -> None:
    sent = Outcome(items=items, total=len(items) + more)
    sent.fail(SecmonError(1730), "zeta")
    got, chunks = await _across(sent)
    assert got == sent
    assert len(chunks) == 1


async def test_the_total_of_an_outcome_without_one_is_what_it_holds() -> None:
    got, _ = await _across(Outcome(items=["a", "b"]))
    assert isinstance(got, Outcome)
    assert (got.items, got.total) == (["a", "b"], 2)


@pytest.mark.parametrize(
    "items", [list(range(3 * ITEMS_PER_CHUNK + 1)), ["x" * (MAX_CHUNK_BYTES // 4)] * 9], ids=["many", "large"]
)
async def test_what_does_not_fit_into_one_message_is_streamed(items: list[Any]) -> None:
    got, chunks = await _across(Outcome(items=items))
    assert isinstance(got, Outcome)
    assert got.items == items
    assert len(chunks) > 2
    assert all(len(chunk.items) <= MAX_CHUNK_BYTES for chunk in chunks)


async def test_other_results_and_errors_cross() -> None:
    got, _ = await _across(Plain(data={"a": 1}, message="done"))
    assert got == Plain(data={"a": 1}, message="done")
    failed = SecmonError(3022, ids=("n1", 2), nodes={"n1": "gone"})
    with pytest.raises(SecmonError) as raised:
        await unpack_result(_stream([pack_failure(failed)]))
    assert (raised.value.code, raised.value.ids, raised.value.nodes) == (3022, ("n1", 2), {"n1": "gone"})


def called(**params: Any) -> pb.ExecuteRequest:
    call = Call(operation="GET /", params=params, identity=node_identity(), request_id="r1")
    return pack_call(call, part=False)


def test_a_call_comes_out_as_it_went_in() -> None:
    params = {
        "agents": list(range(1000)),
        "text": "x",
        "bytes": b"y" * 10,
        "none": None,
        "nested": {"a": [1, {"b": 2}]},
    }
    request = called(**params)
    assert unpack_call(request, None).params == params


def test_large_parameters_are_texts_or_bytes() -> None:
    large = MAX_STRUCTURE_BYTES + 1
    for value in (b"x" * large, "x" * large):
        assert unpack_call(called(body=value), None).params == {"body": value}
    request = called(body=0)
    request.params = b"\x81\xa4body\xdd" + large.to_bytes(4, "big") + b"\x90" * large
    with pytest.raises(SecmonError, match=r"3036.*'body' of a call is too large"):
        unpack_call(request, None)


def test_the_parameters_of_a_call_share_the_limit_of_their_size() -> None:
    half = MAX_STRUCTURE_BYTES // 2
    value = b"\xdd" + half.to_bytes(4, "big") + b"\xc0" * half
    request = called()
    request.params = b"\x82\xa1a" + value + b"\xa1b" + value
    with pytest.raises(SecmonError, match=r"3036.*'b' of a call is too large"):
        unpack_call(request, None)


async def test_an_answer_without_end_is_refused() -> None:
    head, sent = next(iter(pack_result(Outcome()))), 0

    async def endless() -> AsyncIterator[pb.ExecuteChunk]:
        nonlocal sent
        yield head
        while True:
            sent += 1
            yield pb.ExecuteChunk(items=b"\x91\xc6" + MAX_CHUNK_BYTES.to_bytes(4, "big") + bytes(MAX_CHUNK_BYTES))

    with pytest.raises(SecmonError, match=r"3036.*the answer has more than 67108864 bytes"):
        await unpack_result(endless())
    assert sent == MAX_ANSWER_BYTES // MAX_CHUNK_BYTES


async def test_a_message_of_millions_of_items_is_refused_before_it_is_decoded() -> None:
    count = 30_000_000
    bomb = pb.ExecuteChunk(items=b"\xdd" + count.to_bytes(4, "big") + b"\xc0" * count)
    with pytest.raises(SecmonError, match="length <= 500"):
        await unpack_result(_stream([*pack_result(Outcome()), bomb]))
