"""Calls and results on the wire. A peer names an operation and sends values; nothing it sends is ever evaluated.

The same messages travel between nodes (gRPC) and between the daemons of a node (``local_calls``), so that a daemon that
only passes an answer on passes its bytes.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from google.protobuf.message import DecodeError

from secmon.cluster.call import Call, refused_parameters
from secmon.cluster.catalogue import Catalogue, Operation
from secmon.cluster.rpc.answer_budget import Share
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.spent import MAX_PIECES, check_spent
from secmon.common.collector import collector_paused
from secmon.common.errors import SecmonError
from secmon.common.identity import Identity
from secmon.common.outcome import Outcome, Result
from secmon.common.trace import current_trace
from secmon.security.authentication_error import AuthenticationError, known_detail

ITEMS_PER_CHUNK = 500
"""Items of one message: at a few hundred bytes each, well below the size limit of a message."""

MAX_CHUNK_BYTES = 2 * 1024 * 1024

MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""Of an answer, all messages together."""

MAX_ANSWER_OBJECTS = 6_000_000
"""Python objects that an answer becomes, about 500 MB: an empty object takes one byte of a message and 70 of memory. A
hundred thousand agents with all fields are half as many."""

_UNCOUNTED_BYTES = 256 * 1024
"""The first bytes of an answer, whose objects are not counted: most answers are smaller."""

LARGE_PAGE = 1000
"""Items that a call may ask for before its answer is streamed between nodes instead of sent in one message."""

MAX_REPLY_BYTES = 60 * 1024 * 1024
"""Of an answer in one message: gRPC's messages have a limit of their own, which breaks the call off."""

MAX_STRUCTURE_BYTES = 8 * 1024 * 1024
"""Of the parameters of a call that are no text and no bytes: as objects they take many times the memory. Lists of a
million agents fit."""

_OPERATION = re.compile(r"[ -~]{1,256}")
_REQUEST_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
_CLIENT = re.compile(r"[!-~]{0,64}")

_UNREADABLE = (msgspec.DecodeError, msgspec.ValidationError, RecursionError)

_PLAIN = frozenset((0xC4, 0xC5, 0xC6, 0xD9, 0xDA, 0xDB))

T = TypeVar("T")

_encoder = msgspec.msgpack.Encoder()
_decode_result = msgspec.msgpack.Decoder(Result).decode
_decode_identity = msgspec.msgpack.Decoder(Identity).decode
_decode_items = msgspec.msgpack.Decoder(Annotated[list[Any], msgspec.Meta(max_length=ITEMS_PER_CHUNK)]).decode
_decode_parts = msgspec.msgpack.Decoder(
    dict[str, msgspec.Raw] | Annotated[list[msgspec.Raw], msgspec.Meta(max_length=ITEMS_PER_CHUNK)]
).decode
_decode_raw_params = msgspec.msgpack.Decoder(dict[str, msgspec.Raw]).decode
_decode_ids = msgspec.msgpack.Decoder(tuple[str | int, ...]).decode


def pack_call(call: Call, *, part: bool) -> pb.ExecuteRequest:
    """The request for ``call``; its deadline travels beside it."""
    request = pack_request(
        call.operation.name, call.params, identity=call.identity, request_id=call.request_id, client=call.client
    )
    request.part, request.token = part, call.token
    request.streamed = (getattr(call.params, "limit", None) or 0) > LARGE_PAGE
    request.text = call.text and not part and not request.streamed
    request.traced = current_trace() is not None
    return request


def pack_request(
    operation: str, params: Any, *, identity: Identity, request_id: str, client: str = ""
) -> pb.ExecuteRequest:
    """The request for an operation that this process knows by its name only; ``params``: a struct or a mapping."""
    return pb.ExecuteRequest(
        operation=operation,
        params=_encoder.encode(params),
        identity=_encoder.encode(identity),
        request_id=request_id,
        client=client,
    )


def named_operation(request: pb.ExecuteRequest, catalogue: Catalogue, node: str) -> Operation:
    """The operation that a request to ``node`` names. Raises 3009 when this version does not know it, 3036 as below.

    The texts that logs show are short and printable, so that no peer writes log lines of its own.
    """
    for name, form, text in (
        ("operation", _OPERATION, request.operation),
        ("request id", _REQUEST_ID, request.request_id),
        ("client", _CLIENT, request.client),
    ):
        if not form.fullmatch(text):
            raise SecmonError(3036, f"the {name} {text[:64]!r} of a call is not allowed")
    operation = catalogue.get(request.operation)
    if operation is None:
        raise SecmonError(3009, f"operation {request.operation!r} is not known on node {node}")
    return operation


Authorize = Callable[[Call], Call]


def unpack_call(
    request: pb.ExecuteRequest,
    operation: Operation,
    deadline: float | None,
    node: str,
    authorize: Authorize = lambda call: call,
) -> Call:
    """The call that a peer sent to ``node``, of the operation that :func:`named_operation` found.

    ``authorize`` checks the caller before the parameters are decoded: it returns the call, perhaps with another
    identity, or raises. Raises 3036 when the call cannot be decoded, 1000 when the parameters are not the operation's.
    """
    try:
        identity = _decode_identity(request.identity)
        _check_size(request.params)
    except _UNREADABLE as error:
        raise SecmonError(3036, str(error)) from None
    call = Call(
        operation=operation,
        params=None,
        identity=identity,
        request_id=request.request_id,
        deadline=deadline,
        client=request.client,
        token=request.token,
        text=request.text and not request.part,
    )
    call = authorize(call)
    try:
        return msgspec.structs.replace(call, params=_decode_params(operation, request.params, node))
    except _UNREADABLE as error:
        raise SecmonError(3036, str(error)) from None


def _decode_params(operation: Operation, data: bytes, node: str) -> Any:
    try:
        return operation.unpack(data)
    except msgspec.ValidationError as error:
        raise refused_parameters(error, node) from None


def _check_size(params: bytes) -> None:
    """Raises 3036 for parameters that would take much more memory than their message."""
    if len(params) <= MAX_STRUCTURE_BYTES:
        return
    left = MAX_STRUCTURE_BYTES
    for name, value in _decode_raw_params(params).items():
        left -= _structure(value)
        if left < 0:
            raise SecmonError(3036, f"the parameter {name[:64]!r} of a call is too large")


def _check_piece(piece: bytes) -> None:
    """Raises 3036 for a piece of an answer that would take much more memory than its message."""
    if len(piece) <= MAX_STRUCTURE_BYTES:
        return
    parts = _decode_parts(piece)
    if sum(map(_structure, parts.values() if isinstance(parts, dict) else parts)) > MAX_STRUCTURE_BYTES:
        raise SecmonError(3036, f"a message of the answer has more than {MAX_STRUCTURE_BYTES} bytes besides texts")


def _structure(value: msgspec.Raw) -> int:
    """Bytes of ``value``, unless it is a text or bytes."""
    return 0 if _is_plain(value) else len(memoryview(value))


def _is_plain(value: msgspec.Raw) -> bool:
    """Whether it is bytes or a text of any length, by the first byte (msgpack's bin and str families)."""
    first = memoryview(value)[0]
    return first in _PLAIN or 0xA0 <= first <= 0xBF


def pack_result(result: Result) -> Iterator[bytes]:
    """The serialized chunks of an answer of any size: the head first, then the items in pieces.

    What fits goes with the head: a second message costs more than everything else about a small answer.
    """
    if not isinstance(result, Outcome):
        yield _chunk(head=_encoder.encode(result))
        return
    if len(result.text) > MAX_CHUNK_BYTES:
        yield _chunk(head=_encoder.encode(msgspec.structs.replace(result, text=b"")))
        for start in range(0, len(result.text), MAX_CHUNK_BYTES):
            yield _chunk(text=result.text[start : start + MAX_CHUNK_BYTES])
        return
    if len(result.items) <= ITEMS_PER_CHUNK:
        whole = _encoder.encode(msgspec.structs.replace(result, total=result.count))
        if len(whole) <= MAX_CHUNK_BYTES:
            yield _chunk(head=whole)
            return
    head = msgspec.structs.replace(result, items=[], total=result.count)
    yield _chunk(head=_encoder.encode(head))
    for start in range(0, len(result.items), ITEMS_PER_CHUNK):
        yield from _pack_items(result.items[start : start + ITEMS_PER_CHUNK])


def _chunk(**piece: Any) -> bytes:
    return pb.ExecuteChunk(**piece).SerializeToString()


def _pack_items(items: Sequence[Any]) -> Iterator[bytes]:
    packed = _encoder.encode(items)
    if len(packed) <= MAX_CHUNK_BYTES or len(items) == 1:
        yield _chunk(items=packed)
        return
    middle = len(items) // 2
    yield from _pack_items(items[:middle])
    yield from _pack_items(items[middle:])


def pack_failure(error: SecmonError | AuthenticationError) -> bytes:
    """The serialized chunk of an error: code, text, ids and nodes; a 401 as its detail."""
    if isinstance(error, AuthenticationError):
        return _chunk(failure=pb.Failure(unauthenticated=error.detail))
    failure = pb.Failure(code=error.code, extra=error.extra or "", ids=_encoder.encode(error.ids), nodes=error.nodes)
    return _chunk(failure=failure)


def pack_reply(chunks: Sequence[bytes]) -> pb.ExecuteReply:
    """The chunks of an answer as one message; a failure (3036) when they are too large for one."""
    if sum(map(len, chunks)) > MAX_REPLY_BYTES:
        chunks = [pack_failure(SecmonError(3036, f"the answer has more than {MAX_REPLY_BYTES} bytes"))]
    return pb.ExecuteReply(chunks=chunks)


class ResultReader:
    """Puts a result together from the serialized chunks that a peer streams."""

    def __init__(self, share: Share | None = None) -> None:
        """``share``: what the answer takes of the budget of its node, if that has one."""
        self._share = share
        self.spent: list[pb.Spent] = []
        """What nodes say of the time; those that were asked by others first."""
        self._result: Result | None = None
        self._texts: list[bytes] = []
        self._received = 0
        self._objects = 0

    def add(self, data: bytes) -> None:
        """The next chunk.

        Raises the error it carries; 3036 when it cannot be decoded, the answer is too large, or its share is refused.
        """
        try:
            self._add(pb.ExecuteChunk.FromString(data))
        except (*_UNREADABLE, DecodeError) as error:
            raise SecmonError(3036, str(error)) from None

    def _add(self, chunk: pb.ExecuteChunk) -> None:
        match chunk.WhichOneof("piece"):
            case "failure":
                raise unpack_failure(chunk.failure)
            case "head":
                self._result = self._decoded(_decode_result, chunk.head)
            case "items" if isinstance(self._result, Outcome):
                self._result.items.extend(self._decoded(_decode_items, chunk.items))
            case "text" if isinstance(self._result, Outcome):
                self._count(chunk.text)
                self._texts.append(chunk.text)
            case "spent" if len(self.spent) < MAX_PIECES:
                check_spent(chunk.spent)
                self.spent.append(chunk.spent)
            case piece:
                raise SecmonError(3036, f"unexpected piece {piece!r}")

    def _decoded(self, decode: Callable[[bytes], T], piece: bytes) -> T:
        self._count(piece)
        if self._received <= _UNCOUNTED_BYTES:
            return decode(piece)
        _check_piece(piece)
        with collector_paused():  # what it would free is not to be taken off
            before = sys.getallocatedblocks()  # no other thread runs while msgspec decodes
            value = decode(piece)
            made = sys.getallocatedblocks() - before
        self._objects += made
        if self._objects > MAX_ANSWER_OBJECTS:
            raise SecmonError(3036, f"the answer has more than {MAX_ANSWER_OBJECTS} values")
        if self._share is not None:
            self._share.add(0, max(0, made))
        return value

    def _count(self, piece: bytes) -> None:
        self._received += len(piece)
        if self._received > MAX_ANSWER_BYTES:
            raise SecmonError(3036, f"the answer has more than {MAX_ANSWER_BYTES} bytes")
        if self._share is not None and self._received > _UNCOUNTED_BYTES:
            self._share.add(len(piece), 0)

    def result(self) -> Result:
        """The whole answer. Raises 3036 when nothing has come."""
        if self._result is None:
            raise SecmonError(3036, "empty answer")
        if self._texts and isinstance(self._result, Outcome):
            self._result.text = b"".join(self._texts)
        return self._result


def unpack_failure(failure: pb.Failure) -> SecmonError | AuthenticationError:
    """The error that a peer sent, rebuilt from the catalogue."""
    if failure.unauthenticated:
        return AuthenticationError(known_detail(failure.unauthenticated))
    ids = _decode_ids(failure.ids) if failure.ids else ()
    return SecmonError(failure.code, failure.extra or None, ids=ids, nodes=dict(failure.nodes))
