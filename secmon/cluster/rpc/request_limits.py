"""Limits of request sizes by method. The limit of the server itself is that of the largest message of any method.

A decoded message of many small parts takes a hundred times its bytes in memory, so its size is checked before.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, cast

import grpc
from grpc import aio

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context = aio.ServicerContext[Any, Any]


class _TooLarge(NamedTuple):
    """In place of a request that was not decoded."""

    size: int


class RequestLimits(aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Answers larger requests of unary-stream methods with RESOURCE_EXHAUSTED, without decoding them."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        """``limits``: bytes, by the full name of the method (``/package.Service/Method``)."""
        self._limits = limits

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]], details: grpc.HandlerCallDetails
    ) -> Handler:
        """The handler of the method, behind its limit if it has one."""
        handler = await continuation(details)
        most = self._limits.get(details.method)
        return handler if handler is None or most is None else _limited(handler, most)


def _limited(handler: Handler, most: int) -> Handler:
    decode = handler.request_deserializer
    assert decode is not None
    # The stubs know the generators of threaded servers only.
    answer = cast(Callable[[Any, Context], AsyncIterator[Any]], handler.unary_stream)

    def read(data: bytes) -> Any:
        return decode(data) if len(data) <= most else _TooLarge(len(data))

    async def respond(request: Any, context: Context) -> AsyncIterator[Any]:
        if isinstance(request, _TooLarge):
            text = f"a request of {request.size} bytes, {most} are allowed"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        async for message in answer(request, context):
            yield message

    return grpc.unary_stream_rpc_method_handler(respond, read, handler.response_serializer)
