"""What nodes say of the time that a call took, from the node that spent it to the one that was asked."""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Sequence

import pytest

from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.spent import HANDOVER, MAX_PIECES, MAX_SPANS, WORTH_SECONDS, passage, with_spent
from secmon.cluster.rpc.wire import ResultReader, pack_failure, pack_result
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome, Plain
from secmon.common.trace import begin_trace, span

pytestmark = pytest.mark.anyio

LARGE = Outcome(items=[{"n": number} for number in range(1200)])


async def answer(chunks: Sequence[bytes], seconds: float) -> AsyncGenerator[bytes, None]:
    with span("store"):
        time.sleep(seconds)  # noqa: ASYNC251 - the figure is what is tested
    for chunk in chunks:
        yield chunk


async def read(chunks: AsyncGenerator[bytes, None], reader: ResultReader) -> object:
    async for chunk in chunks:
        reader.add(chunk)
    return reader.result()


def steps(piece: pb.Spent) -> set[str]:
    return {each.step for each in piece.spans}


@pytest.mark.parametrize("result", [Plain(data=1), LARGE], ids=["one chunk", "many"])
async def test_an_answer_that_took_long_says_so(result: Plain | Outcome) -> None:
    reader = ResultReader()
    slow = with_spent("w1", answer(list(pack_result(result)), 2 * WORTH_SECONDS))
    found = await asyncio.create_task(read(slow, reader))
    assert found == result or isinstance(found, Outcome)
    (piece,) = reader.spent
    assert (piece.node, steps(piece)) == ("w1", {"store"})
    assert piece.seconds >= 2 * WORTH_SECONDS


async def test_an_error_comes_with_its_times() -> None:
    reader = ResultReader()
    failing = with_spent("w1", answer([pack_failure(SecmonError(3021))], 2 * WORTH_SECONDS))
    with pytest.raises(SecmonError):
        await asyncio.create_task(read(failing, reader))
    assert [piece.node for piece in reader.spent] == ["w1"]


async def test_pieces_of_inner_nodes_come_first() -> None:
    inner = with_spent("m1", answer(list(pack_result(Plain(data=1))), 2 * WORTH_SECONDS))
    reader = ResultReader()
    await asyncio.create_task(read(with_spent("w1", inner), reader))
    assert [piece.node for piece in reader.spent] == ["m1", "w1"]
    assert reader.spent[0].seconds <= reader.spent[1].seconds


async def test_the_way_between_processes_is_what_they_do_not_account_for() -> None:
    async def asked() -> dict[tuple[str, str], float]:
        trace = begin_trace()
        pieces: list[pb.Spent] = []
        with passage(pieces, "", HANDOVER):
            pieces.append(pb.Spent(node="m1", seconds=2, spans=[pb.Span(step="store", seconds=1.5)]))
            pieces.append(pb.Spent(node="w1", seconds=5, spans=[pb.Span(node="w2", step="queue", seconds=0.5)]))
            time.sleep(0.01)  # noqa: ASYNC251 - as above
        with pytest.raises(SecmonError), passage([], "w3"):
            raise SecmonError(3021)
        return trace.seconds

    found = await asyncio.create_task(asked())
    assert found["m1", "network"] == 3
    assert (found["m1", "store"], found["w2", "queue"], found["w1", HANDOVER]) == (1.5, 0.5, 0)
    assert found["w3", "network"] >= 0


HOSTILE = {
    "not a number": pb.Spent(node="w1", seconds=math.nan),
    "negative": pb.Spent(node="w1", seconds=1, spans=[pb.Span(step="store", seconds=-1)]),
    "a line of a log": pb.Spent(node="w1\nnext", seconds=1),
    "a long name": pb.Spent(node="w1", seconds=1, spans=[pb.Span(step="s" * 200, seconds=1)]),
    "many steps": pb.Spent(node="w1", seconds=1, spans=[pb.Span(step=str(n), seconds=1) for n in range(MAX_SPANS + 1)]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_times_that_no_node_sends_are_refused(name: str) -> None:
    with pytest.raises(SecmonError) as caught:
        ResultReader().add(pb.ExecuteChunk(spent=HOSTILE[name]).SerializeToString())
    assert caught.value.code == 3036


def test_pieces_without_end_are_refused() -> None:
    reader, piece = ResultReader(), pb.ExecuteChunk(spent=pb.Spent(node="w1", seconds=1)).SerializeToString()
    for _ in range(MAX_PIECES):
        reader.add(piece)
    with pytest.raises(SecmonError):
        reader.add(piece)
