"""What nodes say of the time that a call took: packed with the answer, and put together at the node asked."""

import math
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager

from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.errors import SecmonError
from secmon.common.trace import Trace, begin_trace, current_trace

WORTH_SECONDS = 0.02
"""Time of a node that is worth a message."""
SPAN_SECONDS = 0.001
"""Time of a step that is worth a part of it."""
MAX_SPANS = 64
MAX_PIECES = 8
"""Of an answer: one for each process that has passed it on."""

NETWORK, HANDOVER = "network", "handover"
"""Steps between processes: of two nodes, of one node."""

_NAME = re.compile(r"[ -~]{0,128}")


async def with_spent(node: str, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """``chunks`` of an answer; before the last of them one with what ``node`` has spent, if that is worth it."""
    trace, last = begin_trace(), None
    async with aclosing(chunks):
        async for chunk in chunks:
            if last is not None:
                yield last
            last = chunk
    if (seconds := trace.elapsed()) >= WORTH_SECONDS:
        yield pb.ExecuteChunk(spent=_packed(node, seconds, trace)).SerializeToString()
    if last is not None:
        yield last


def _packed(node: str, seconds: float, trace: Trace) -> pb.Spent:
    longest = sorted(trace.seconds.items(), key=lambda each: -each[1])[:MAX_SPANS]
    spans = [pb.Span(node=where, step=step, seconds=spent) for (where, step), spent in longest if spent >= SPAN_SECONDS]
    return pb.Spent(node=node, seconds=seconds, spans=spans)


def check_spent(piece: pb.Spent) -> None:
    """Raises 3036 for what no node of ours says."""
    if len(piece.spans) > MAX_SPANS or not _sound(piece.node, "", piece.seconds):
        raise SecmonError(3036, "unexpected times of a call")
    if not all(_sound(each.node, each.step, each.seconds) for each in piece.spans):
        raise SecmonError(3036, "unexpected times of a call")


def _sound(node: str, step: str, seconds: float) -> bool:
    known = _NAME.fullmatch(node) is not None and _NAME.fullmatch(step) is not None
    return known and math.isfinite(seconds) and seconds >= 0


@contextmanager
def passage(pieces: Sequence[pb.Spent], node: str, step: str = NETWORK) -> Iterator[None]:
    """Note what a call that the block makes takes, also when it fails.

    ``pieces`` is filled by its answer, those of the inner processes first. Time that neither accounts for was spent
    between them: ``step`` on the way to the first process, the network after that. Without pieces all is of ``node``.
    """
    trace = current_trace()
    if trace is None:
        yield
        return
    began = trace.elapsed()
    try:
        yield
    finally:
        left = trace.elapsed() - began
        for piece in reversed(pieces):
            trace.add(step, max(0.0, left - piece.seconds), piece.node)
            for each in piece.spans:
                trace.add(each.step, each.seconds, each.node or piece.node)
            left, step = piece.seconds, NETWORK
        if not pieces:
            trace.add(step, left, node)
