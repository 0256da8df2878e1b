"""Executing the calls that other nodes and daemons send: decode, check the caller, run, encode."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from secmon.cluster.call import Call
from secmon.cluster.catalogue import Catalogue, Operation
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.spent import with_spent
from secmon.cluster.rpc.wire import Authorize, named_operation, pack_failure, pack_result, unpack_call
from secmon.common.errors import SecmonError
from secmon.common.outcome import Outcome, Result
from secmon.security.authentication_error import AuthenticationError

log = logging.getLogger("secmon.clusterd.peer")

Run = Callable[[Call], Awaitable[Result]]
Relay = Callable[[Operation, pb.ExecuteRequest, float | None], AsyncGenerator[bytes, None] | None]


class CallService:
    """Answers ``ExecuteRequest`` messages with serialized ``ExecuteChunk`` messages, whatever carries them."""

    def __init__(self, node: str, catalogue: Catalogue, *, whole: Run, part: Run, relay: Relay | None = None) -> None:
        """``node``: the name of this one, for errors.

        ``whole`` routes a call as if a client of this node had made it, ``part`` runs this node's share.

        ``relay`` gives the answer of another node, whose bytes are passed on as they come; None: the call is run here.
        """
        self._node = node
        self._catalogue = catalogue
        self._whole = whole
        self._part = part
        self._relay = relay
        self._refusing = False

    def refuse(self) -> None:
        """Answer all further calls with 3012: they were not begun, so that they can be sent again."""
        self._refusing = True

    def answer(
        self, request: pb.ExecuteRequest, deadline: float | None, authorize: Authorize = lambda call: call
    ) -> AsyncGenerator[bytes, None]:
        """The chunks of the answer. Errors are chunks too: nothing but a cancellation is raised.

        ``authorize`` checks the caller: it returns the call, perhaps with another identity, or raises.
        """
        chunks = self._answer(request, deadline, authorize)
        return with_spent(self._node, chunks) if request.traced else chunks

    async def _answer(
        self, request: pb.ExecuteRequest, deadline: float | None, authorize: Authorize
    ) -> AsyncGenerator[bytes, None]:
        if self._refusing:
            yield pack_failure(SecmonError(3012))
            return
        try:
            operation = named_operation(request, self._catalogue, self._node)
            relayed = None if self._relay is None else self._relay(operation, request, deadline)
            if relayed is not None:
                async with aclosing(relayed):
                    async for chunk in relayed:
                        yield chunk
                return
            call = unpack_call(request, operation, deadline, self._node, authorize)
            result = await (self._part if request.part else self._whole)(call)
            if call.text and isinstance(result, Outcome):
                result = result.with_text()
        except (SecmonError, AuthenticationError) as error:
            log.debug("request %.64r: %.256r failed: %s", request.request_id, request.operation, error)
            yield pack_failure(error)
            return
        for chunk in pack_result(result):
            yield chunk
