"""Results cross the wire unchanged, whatever their size, and small ones in one message."""

import gc
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, msgpack

from secmon.cluster.call import Call
from secmon.cluster.catalogue import Catalogue, operation
from secmon.cluster.executor import Context
from secmon.cluster.rpc import wire
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.wire import (
    ITEMS_PER_CHUNK,
    LARGE_PAGE,
    MAX_ANSWER_BYTES,
    MAX_CHUNK_BYTES,
    MAX_REPLY_BYTES,
    MAX_STRUCTURE_BYTES,
    ResultReader,
    named_operation,
    pack_call,
    pack_failure,
    pack_reply,
    pack_result,
    unpack_call,
)
from secmon.common.errors import SecmonError
from secmon.common.identity import node_identity
from secmon.common.outcome import Outcome, Plain, Result

ITEMS = st.lists(
    st.dictionaries(st.text(max_size=8), st.integers(-5, 5) | st.text(max_size=8), max_size=3), max_size=30
)


def _read(chunks: Iterable[bytes]) -> Result:
    reader = ResultReader()
    for chunk in chunks:
        reader.add(chunk)
    return reader.result()


def _across(result: Result) -> tuple[Result, list[bytes]]:
    chunks = list(pack_result(result))
    return _read(chunks), chunks


@settings(max_examples=100)
@given(items=ITEMS, more=st.integers(0, 3))
def test_small_outcomes_cross_in_one_message(items: list[Any], more: int) -> None:
    sent = Outcome(items=items, total=len(items) + more)
    sent.fail(SecmonError(1730), "zeta")
    got, chunks = _across(sent)
    assert got == sent
    assert len(chunks) == 1


def test_the_total_of_an_outcome_without_one_is_what_it_holds() -> None:
    got, _ = _across(Outcome(items=["a", "b"]))
    assert isinstance(got, Outcome)
    assert (got.items, got.total) == (["a", "b"], 2)


@pytest.mark.parametrize(
    "items", [list(range(3 * ITEMS_PER_CHUNK + 1)), ["x" * (MAX_CHUNK_BYTES // 4)] * 9], ids=["many", "large"]
)
def test_what_does_not_fit_into_one_message_is_streamed(items: list[Any]) -> None:
    got, chunks = _across(Outcome(items=items))
    assert isinstance(got, Outcome)
    assert got.items == items
    assert len(chunks) > 2
    assert all(len(pb.ExecuteChunk.FromString(chunk).items) <= MAX_CHUNK_BYTES for chunk in chunks)


def test_other_results_and_errors_cross() -> None:
    got, _ = _across(Plain(data={"a": 1}, message="done"))
    assert got == Plain(data={"a": 1}, message="done")
    failed = SecmonError(3022, ids=("n1", 2), nodes={"n1": "gone"})
    with pytest.raises(SecmonError) as raised:
        _read([pack_failure(failed)])
    assert (raised.value.code, raised.value.ids, raised.value.nodes) == (3022, ("n1", 2), {"n1": "gone"})


class Inner(Struct, frozen=True):
    """A nested parameter."""

    numbers: list[int]


class Given(Struct, frozen=True, kw_only=True):
    """Parameters of every kind."""

    agents: list[int] = []
    text: str = ""
    data: bytes = b""
    nothing: str | None = None
    inner: Inner | None = None
    limit: int = 500


CATALOGUE = Catalogue()


@operation("PUT", "/things", params=Given, catalogue=CATALOGUE)
async def things(ctx: Context, params: Given) -> Plain:
    """Nothing."""
    return Plain()


THINGS = CATALOGUE["PUT /things"]


def called(**params: Any) -> pb.ExecuteRequest:
    call = Call(operation=THINGS, params=Given(**params), identity=node_identity(), request_id="r1")
    return pack_call(call, part=False)


def test_a_call_comes_out_as_it_went_in() -> None:
    given = Given(agents=list(range(1000)), text="x", data=b"y" * 10, inner=Inner(numbers=[1, 2]))
    request = called(agents=given.agents, text=given.text, data=given.data, inner=given.inner)
    assert named_operation(request, CATALOGUE, "n1") is THINGS
    assert unpack_call(request, THINGS, None, "n1").params == given


def test_unknown_operations_and_wrong_parameters_are_refused() -> None:
    request = called()
    request.operation = "PUT /elsewhere"
    with pytest.raises(SecmonError, match=r"3009.*'PUT /elsewhere' is not known on node n1"):
        named_operation(request, CATALOGUE, "n1")
    request.operation = "PUT\n/things"
    with pytest.raises(SecmonError, match=r"3036.*is not allowed"):
        named_operation(request, CATALOGUE, "n1")
    request.params = msgpack.encode({"agents": "all"})
    with pytest.raises(SecmonError, match="parameters refused by node n1: Expected `array`"):
        unpack_call(request, THINGS, None, "n1")
    request.params = b"\xc1"
    with pytest.raises(SecmonError, match="3036"):
        unpack_call(request, THINGS, None, "n1")


def test_the_caller_is_checked_before_the_parameters() -> None:
    def refuse(call: Call) -> Call:
        raise SecmonError(4000, call.operation.name)

    request = called()
    request.params = msgpack.encode({"agents": "all"})
    with pytest.raises(SecmonError, match=r"4000.*PUT /things"):
        unpack_call(request, THINGS, None, "n1", refuse)


def test_calls_for_large_pages_are_streamed() -> None:
    assert not called().streamed
    assert not called(limit=LARGE_PAGE).streamed
    assert called(limit=LARGE_PAGE + 1).streamed


def test_large_parameters_are_texts_or_bytes() -> None:
    large = MAX_STRUCTURE_BYTES + 1
    assert unpack_call(called(data=b"x" * large), THINGS, None, "n1").params.data == b"x" * large
    assert unpack_call(called(text="x" * large), THINGS, None, "n1").params.text == "x" * large
    request = called()
    request.params = b"\x81\xa4body\xdd" + large.to_bytes(4, "big") + b"\x90" * large
    with pytest.raises(SecmonError, match=r"3036.*'body' of a call is too large"):
        unpack_call(request, THINGS, None, "n1")


def test_the_parameters_of_a_call_share_the_limit_of_their_size() -> None:
    half = MAX_STRUCTURE_BYTES // 2
    value = b"\xdd" + half.to_bytes(4, "big") + b"\xc0" * half
    request = called()
    request.params = b"\x82\xa1a" + value + b"\xa1b" + value
    with pytest.raises(SecmonError, match=r"3036.*'b' of a call is too large"):
        unpack_call(request, THINGS, None, "n1")


def test_an_answer_without_end_is_refused() -> None:
    reader = ResultReader()
    reader.add(next(pack_result(Outcome())))
    piece = b"\x91\xc6" + MAX_CHUNK_BYTES.to_bytes(4, "big") + bytes(MAX_CHUNK_BYTES)
    chunk = pb.ExecuteChunk(items=piece).SerializeToString()
    for _ in range(MAX_ANSWER_BYTES // MAX_CHUNK_BYTES - 1):
        reader.add(chunk)
    with pytest.raises(SecmonError, match=r"3036.*the answer has more than 67108864 bytes"):
        reader.add(chunk)


def _empty_objects(count: int, one: bytes = b"\x80") -> bytes:
    """A chunk with one item: a list of ``count`` empty objects, each a byte here and 70 bytes in memory."""
    return pb.ExecuteChunk(items=b"\x91\xdd" + count.to_bytes(4, "big") + one * count).SerializeToString()


def test_an_answer_of_many_small_objects_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_ANSWER_OBJECTS", 1_000_000)
    reader = ResultReader()
    reader.add(next(pack_result(Outcome())))
    for _ in range(2):
        reader.add(_empty_objects(400_000))
    with pytest.raises(SecmonError, match=r"3036.*more than 1000000 values"):
        reader.add(_empty_objects(400_000))


def _leave_cycles(count: int) -> None:
    """Garbage that only the collector's longest run finds."""
    cycles: list[list[object]] = [[] for _ in range(count)]
    for cycle in cycles:
        cycle.append(cycle)
    gc.collect()


def test_garbage_that_is_collected_meanwhile_hides_no_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_ANSWER_OBJECTS", 1_000_000)
    reader = ResultReader()
    reader.add(next(pack_result(Outcome())))
    chunk = _empty_objects(400_000, one=b"\x90")  # lists: the collector runs for many of them
    for _ in range(2):
        _leave_cycles(300_000)
        reader.add(chunk)
    _leave_cycles(300_000)
    with pytest.raises(SecmonError, match=r"3036.*more than 1000000 values"):
        reader.add(chunk)


def test_a_message_of_one_huge_structure_is_not_decoded() -> None:
    with pytest.raises(SecmonError, match=r"3036.*a message of the answer has more than 8388608 bytes besides texts"):
        _read([*pack_result(Outcome()), _empty_objects(MAX_STRUCTURE_BYTES + 1)])
    count = MAX_STRUCTURE_BYTES + 1
    items = b"\xa5items\xdd" + count.to_bytes(4, "big") + b"\x80" * count
    head = msgpack.encode(Outcome()).replace(b"\xa5items\x90", items)
    with pytest.raises(SecmonError, match=r"3036.*besides texts"):
        _read([pb.ExecuteChunk(head=head).SerializeToString()])


def test_an_answer_that_is_too_large_for_one_message_is_a_failure() -> None:
    chunks = [bytes(MAX_REPLY_BYTES // 2)] * 2
    assert list(pack_reply(chunks).chunks) == chunks
    with pytest.raises(SecmonError, match=r"3036.*the answer has more than"):
        _read(pack_reply([*chunks, b"x"]).chunks)


def test_what_is_no_answer_is_refused() -> None:
    with pytest.raises(SecmonError, match="3036"):
        _read([b"\xff"])
    with pytest.raises(SecmonError, match=r"3036.*empty answer"):
        _read([])


def test_a_message_of_millions_of_items_is_refused_before_it_is_decoded() -> None:
    count = 30_000_000
    bomb = pb.ExecuteChunk(items=b"\xdd" + count.to_bytes(4, "big") + b"\xc0" * count).SerializeToString()
    with pytest.raises(SecmonError, match="length <= 500"):
        _read([*pack_result(Outcome()), bomb])


@pytest.mark.parametrize("size", [2, MAX_CHUNK_BYTES, MAX_CHUNK_BYTES + 1, 3 * MAX_CHUNK_BYTES])
def test_items_as_text_cross_in_pieces_of_any_size(size: int) -> None:
    sent = Outcome(text=b"[%b]" % (b"1" * (size - 2)), total=1)
    sent.fail(SecmonError(1730), "zeta")
    got, chunks = _across(sent)
    assert got == sent
    assert all(len(chunk) < MAX_CHUNK_BYTES + 1000 for chunk in chunks)


def test_text_without_end_is_refused() -> None:
    reader = ResultReader()
    reader.add(next(pack_result(Outcome())))
    piece = pb.ExecuteChunk(text=b"1" * MAX_CHUNK_BYTES).SerializeToString()
    for _ in range(MAX_ANSWER_BYTES // MAX_CHUNK_BYTES - 1):
        reader.add(piece)
    with pytest.raises(SecmonError, match="3036"):
        reader.add(piece)


@pytest.mark.parametrize(("part", "limit", "text"), [(False, 500, True), (True, 500, False), (False, 1001, False)])
def test_only_whole_answers_in_one_message_are_asked_for_as_text(part: bool, limit: int, text: bool) -> None:
    call = Call(operation=THINGS, params=Given(limit=limit), identity=node_identity(), request_id="r1", text=True)
    request = pack_call(call, part=part)
    assert request.text is text
    assert unpack_call(request, THINGS, None, "n1").text is text
    request.part, request.text = True, True  # as a node might that is not ours
    assert not unpack_call(request, THINGS, None, "n1").text
