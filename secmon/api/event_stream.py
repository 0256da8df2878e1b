"""Operations that are followed: an operation repeated, its items sent as server-sent events.

Each repetition is a call like any other: token, permissions and groups are judged again. So a stream ends with its
token, and shows nothing that its holder may no longer see. The next repetition waits until the client has taken the
events before it: a slow client costs no memory, and the connection's limits end it when it takes nothing.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from starlette.types import Receive, Scope, Send

from secmon.api.responses import SECURITY_HEADERS, ApiResponse
from secmon.cluster.catalogue import Operation
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.json_text import json_text
from secmon.common.outcome import Outcome, Result, dapi_errors
from secmon.security.authentication_error import AuthenticationError

STREAM_TYPE = b"text/event-stream; charset=utf-8"
REPEAT_SECONDS = 1.0
"""Between two repetitions, unless the last one had items."""
REPEAT_TIMEOUT = 5.0
"""Seconds of a repetition: a node that is late answers one of the next."""
SILENT_REPEATS = 15
"""After so many without an event a comment shows that the stream lives."""
MAX_STREAMS, MAX_STREAMS_OF_USER = 32, 8
"""Of a process of the API."""

RunCall = Callable[[object], Awaitable[Result]]
"""Authenticates and runs the call with these parameters."""


class EventStreams:
    """The streams of a process."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._open: Counter[str] = Counter()

    async def begin(self, operation: Operation, params: object, user: str, run: RunCall) -> "EventStream":
        """The response, after the first call has succeeded. Raises what the call raises, and 1772."""
        if self._open.total() >= MAX_STREAMS or self._open[user] >= MAX_STREAMS_OF_USER:
            self._counters.add("api.streams.refused")
            raise SecmonError(1772)
        return EventStream(operation, params, await run(params), run, self.place(user))

    @contextmanager
    def place(self, user: str) -> Iterator[None]:
        """One of the streams, while it is open."""
        self._count(user, 1)
        try:
            yield
        finally:
            self._count(user, -1)

    def _count(self, user: str, change: int) -> None:
        self._open[user] += change
        if not self._open[user]:
            del self._open[user]
        self._counters.set("api.streams", self._open.total())


class EventStream(ApiResponse):
    """The response that goes on until the client leaves, or its token ends."""

    def __init__(
        self, operation: Operation, params: object, first: Result, run: RunCall, place: AbstractContextManager[None]
    ) -> None:
        super().__init__(200, b"", STREAM_TYPE)
        self.raw_headers = [*SECURITY_HEADERS, (b"content-type", STREAM_TYPE)]
        self._operation, self._params, self._result, self._run = operation, params, first, run
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the end."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        with self._place:
            try:
                await self._repeat(send)
            except (SecmonError, AuthenticationError) as error:
                reason = error.message if isinstance(error, SecmonError) else error.detail
                await _send(send, _event({"reason": reason}, kind="end"))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _repeat(self, send: Send) -> None:
        """Raises the error that ends the stream."""
        follow, result, silent = self._operation.follow, self._result, 0
        assert follow is not None, "only such operations are followed"
        await _send(send, b": follows\n\n")
        while isinstance(result, Outcome):
            events = [_event(item) for item in result.items]
            if result.node_errors:
                events.append(_event(dapi_errors(result.node_errors), kind="dapi_errors"))
            if result.items:
                events.append(b"id: %s\n\n" % str(result.extra["position"]).encode())
            silent = 0 if events else silent + 1
            if events or silent % SILENT_REPEATS == 0:
                await _send(send, b"".join(events) or b": alive\n\n")
            await asyncio.sleep(0 if result.items else REPEAT_SECONDS)
            self._params = follow(self._params, result)
            result = await self._run(self._params)


def _event(data: object, *, kind: str = "") -> bytes:
    """An event, of the default kind ``message`` or of another."""
    head = f"event: {kind}\n".encode() if kind else b""
    return head + b"data: " + json_text(data) + b"\n\n"


async def _send(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})
