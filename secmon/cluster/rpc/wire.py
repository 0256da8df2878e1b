"""Calls and results on the wire. A peer names an operation and sends values; nothing it sends is ever evaluated."""

import re
from collections.abc import AsyncIterable, Iterator, Sequence
from typing import Annotated, Any

import msgspec

from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.calls import Call
from secmon.common.errors import SecmonError
from secmon.common.identity import Identity
from secmon.common.outcome import Outcome, Result
from secmon.security.authentication_error import AuthenticationError, known_detail

ITEMS_PER_CHUNK = 500
"""Items of one message: at a few hundred bytes each, well below the size limit of a message."""

MAX_CHUNK_BYTES = 2 * 1024 * 1024

MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""Of the items of an answer, all messages together."""

MAX_STRUCTURE_BYTES = 8 * 1024 * 1024
"""Of the parameters of a call that are no text and no bytes: as objects they take many times the memory. Lists of a
million agents fit."""

_OPERATION = re.compile(r"[ -~]{1,256}")
_REQUEST_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
_CLIENT = re.compile(r"[!-~]{0,64}")

_UNREADABLE = (msgspec.DecodeError, msgspec.ValidationError, RecursionError)

_PLAIN = frozenset((0xC4, 0xC5, 0xC6, 0xD9, 0xDA, 0xDB))

_encoder = msgspec.msgpack.Encoder()
_decode_result = msgspec.msgpack.Decoder(Result).decode
_decode_identity = msgspec.msgpack.Decoder(Identity).decode
_decode_items = msgspec.msgpack.Decoder(Annotated[list[Any], msgspec.Meta(max_length=ITEMS_PER_CHUNK)]).decode
_decode_raw_params = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
_decode_any = msgspec.msgpack.Decoder().decode
_decode_ids = msgspec.msgpack.Decoder(tuple[str | int, ...]).decode


def pack_call(call: Call, *, part: bool) -> pb.ExecuteRequest:
    """The request for ``call``; its deadline travels as the RPC's."""
    return pb.ExecuteRequest(
        operation=call.operation,
        params=_encoder.encode(call.params),
        identity=_encoder.encode(call.identity),
        request_id=call.request_id,
        part=part,
        client=call.client,
        token=call.token,
    )


def unpack_call(request: pb.ExecuteRequest, deadline: float | None) -> Call:
    """The call that a peer sent. Raises 3036 when it cannot be decoded, or names itself as no node does.

    What stands in logs is short and printable, so that no peer writes lines of its own into them.
    """
    for name, form, text in (
        ("operation", _OPERATION, request.operation),
        ("request id", _REQUEST_ID, request.request_id),
        ("client", _CLIENT, request.client),
    ):
        if not form.fullmatch(text):
            raise SecmonError(3036, f"the {name} {text[:64]!r} of a call is not allowed")
    try:
        return Call(
            operation=request.operation,
            params=_decode_params(request.params),
            identity=_decode_identity(request.identity),
            request_id=request.request_id,
            deadline=deadline,
            client=request.client,
            token=request.token,
        )
    except _UNREADABLE as error:
        raise SecmonError(3036, str(error)) from None


def _decode_params(data: bytes) -> dict[str, Any]:
    """Raises 3036 for parameters that would take much more memory than their message."""
    found = _decode_raw_params(data)
    left = MAX_STRUCTURE_BYTES
    for name, value in found.items():
        left -= 0 if _is_plain(value) else len(memoryview(value))
        if left < 0:
            raise SecmonError(3036, f"the parameter {name[:64]!r} of a call is too large")
    return {name: _decode_any(value) for name, value in found.items()}


def _is_plain(value: msgspec.Raw) -> bool:
    """Whether it is bytes or a text of any length, by the first byte (msgpack's bin and str families)."""
    first = memoryview(value)[0]
    return first in _PLAIN or 0xA0 <= first <= 0xBF


def pack_result(result: Result) -> Iterator[pb.ExecuteChunk]:
    """The head first, then the items in pieces, so that an answer of any size streams.

    What fits goes with the head: a second message costs more than everything else about a small answer.
    """
    if not isinstance(result, Outcome):
        yield pb.ExecuteChunk(head=_encoder.encode(result))
        return
    if len(result.items) <= ITEMS_PER_CHUNK:
        whole = _encoder.encode(msgspec.structs.replace(result, total=result.count))
        if len(whole) <= MAX_CHUNK_BYTES:
            yield pb.ExecuteChunk(head=whole)
            return
    head = msgspec.structs.replace(result, items=[], total=result.count)
    yield pb.ExecuteChunk(head=_encoder.encode(head))
    for start in range(0, len(result.items), ITEMS_PER_CHUNK):
        yield from _pack_items(result.items[start : start + ITEMS_PER_CHUNK])


def _pack_items(items: Sequence[Any]) -> Iterator[pb.ExecuteChunk]:
    packed = _encoder.encode(items)
    if len(packed) <= MAX_CHUNK_BYTES or len(items) == 1:
        yield pb.ExecuteChunk(items=packed)
        return
    middle = len(items) // 2
    yield from _pack_items(items[:middle])
    yield from _pack_items(items[middle:])


def pack_failure(error: SecmonError | AuthenticationError) -> pb.ExecuteChunk:
    """An error as code, text, ids and nodes; a 401 as its detail."""
    if isinstance(error, AuthenticationError):
        return pb.ExecuteChunk(failure=pb.Failure(unauthenticated=error.detail))
    failure = pb.Failure(code=error.code, extra=error.extra or "", ids=_encoder.encode(error.ids), nodes=error.nodes)
    return pb.ExecuteChunk(failure=failure)


async def unpack_result(chunks: AsyncIterable[pb.ExecuteChunk]) -> Result:
    """The result that a peer streams. Raises the error it sent, or 3036 when it cannot be decoded or has no end."""
    result: Result | None = None
    left = MAX_ANSWER_BYTES
    try:
        async for chunk in chunks:
            match chunk.WhichOneof("piece"):
                case "failure":
                    raise unpack_failure(chunk.failure)
                case "head":
                    result = _decode_result(chunk.head)
                case "items" if isinstance(result, Outcome):
                    left -= len(chunk.items)
                    if left < 0:
                        raise SecmonError(3036, f"the answer has more than {MAX_ANSWER_BYTES} bytes")
                    result.items.extend(_decode_items(chunk.items))
                case piece:
                    raise SecmonError(3036, f"unexpected piece {piece!r}")
    except _UNREADABLE as error:
        raise SecmonError(3036, str(error)) from None
    if result is None:
        raise SecmonError(3036, "empty answer")
    return result


def unpack_failure(failure: pb.Failure) -> SecmonError | AuthenticationError:
    """The error that a peer sent, rebuilt from the catalogue."""
    if failure.unauthenticated:
        return AuthenticationError(known_detail(failure.unauthenticated))
    ids = _decode_ids(failure.ids) if failure.ids else ()
    return SecmonError(failure.code, failure.extra or None, ids=ids, nodes=dict(failure.nodes))
