"""The HTTP framing: uvicorn's httptools protocol with bounds on everything a client can make grow or last.

A request line or header of more than 8190 bytes, too many headers, or what is no HTTP: 400 as text, and the connection
is closed (conventions.md 0, step 1). Times are kept as one number per connection, ``expires``, and looked at by the
server's sweep: a connection costs no timer.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from urllib.parse import unquote

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from secmon.api.cycle import ResponseCycle
from secmon.api.request import KNOWN_ADDRESS, ON_AUTHENTICATED
from secmon.common.accept.acceptor import Accepted
from secmon.common.accept.limiter import AcceptLimits, ConnectionLimiter
from secmon.common.counters import Counters

ACCEPT = AcceptLimits(total=2000, reserved=500, per_address=1000)
MIN_TAKING_RATE = 500
"""Bytes per second that a client must take of what waits for it, on the average over ``idle_seconds``."""


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """Bounds of a node's HTTP connections: sizes in bytes, times in seconds.

    ``accept``: how many there may be, from their acceptance on. ``handshake``: TLS. ``head``: until the headers of a
    request are complete. ``idle``: between two requests, and for a client that takes too little of its answer.
    ``linger``: for the rest of a body whose request was already answered; it is thrown away, so that the client, which
    may read only when all is sent, gets to the answer.
    """

    line_bytes: int = 8190
    head_bytes: int = 65_536
    headers: int = 100
    pipelined: int = 16
    accept: AcceptLimits = ACCEPT
    head_seconds: float = 10.0
    idle_seconds: float = 15.0
    linger_seconds: float = 5.0
    handshake_seconds: float = 10.0


class FramingError(Exception):
    """The client does not speak HTTP as it should; ``status`` and text go back to it."""

    def __init__(self, text: str, status: int = 400) -> None:
        self.status = status
        super().__init__(text)


class BoundedProtocol(HttpToolsProtocol):
    """One connection. When it is lost, the request that runs on it is cancelled."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        app_state: dict[str, Any],
        *,
        limits: ConnectionLimits,
        counters: Counters,
        on_framing_error: Callable[[str, int], None],
        accepted: Accepted,
        limiter: ConnectionLimiter,
    ) -> None:
        """``on_framing_error`` gets the client's address and the status of the answer."""
        super().__init__(config, state, app_state, asyncio.get_running_loop())
        self._limits = limits
        self._counters = counters
        self._on_framing_error = on_framing_error
        self._accepted, self._limiter = accepted, limiter
        self._task: asyncio.Task[None] | None = None
        self._answered: RequestResponseCycle | None = None
        """The request that ``_task`` answers; ``cycle`` is the latest, which may wait behind it."""
        self._receiving = False
        self._in_head = False
        self._head_size = 0
        self._unframed = 0
        self._unsent = 0
        self._taken_until = math.inf
        self.expires = self.loop.time() + limits.head_seconds

    # Connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._accepted.transport = transport
        super().connection_made(transport)

    @property
    def waiting(self) -> bool:
        """Whether no request is being answered here."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def _discarding(self) -> bool:
        """Whether the body of a request that has its answer is still coming in."""
        return self.cycle is not None and self.cycle.response_complete and self.cycle.more_body

    def connection_lost(self, exc: Exception | None) -> None:
        unanswered = self.cycle is not None and not self.cycle.response_complete
        super().connection_lost(exc)
        self._limiter.release(self._accepted.slot)
        self.pipeline.clear()
        if unanswered and self._task is not None and self._answered is not None:
            self._answered.disconnected = True
            self._task.cancel()

    def sweep(self, now: float) -> None:
        """Close the connection when its client has let the time pass."""
        unsent = self.transport.get_write_buffer_size()
        if (
            not unsent
            or unsent > self._unsent
            or (now >= self._taken_until and self._unsent - unsent >= MIN_TAKING_RATE * self._limits.idle_seconds)
        ):  # nothing waits, or a response was added
            self._unsent, self._taken_until = unsent, now + self._limits.idle_seconds
        if now < (self._taken_until if unsent else self.expires):
            return
        self._counters.add("api.connections.timed_out")
        if unsent or self.transport.is_closing():
            self.transport.abort()
        else:
            self.transport.close()

    # Bytes in

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._unframed += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Answered as what it is in HTTP/1.1; what follows in the other protocol is not for us.
            self.cycle.keep_alive = False
        except httptools.HttpParserError as error:
            if self.transport.is_closing():
                return
            cause = error.__context__
            self._refuse(cause if isinstance(cause, FramingError) else FramingError("Invalid HTTP request received."))
        else:
            if self._unframed > self._limits.head_bytes:
                self._refuse(FramingError("Request header fields too large."))

    def _refuse(self, error: FramingError) -> None:
        self._counters.add("api.refused.framing")
        self._on_framing_error(self.client[0] if self.client else "", error.status)
        if self.waiting and not self._discarding:
            self._say(error.status, str(error))
        else:  # the request has its answer, or will have; another one would be taken for it
            self.transport.abort()

    def _say(self, status: int, text: str) -> None:
        phrase = {400: "Bad Request", 417: "Expectation Failed", 503: "Service Unavailable"}[status]
        head = (
            f"HTTP/1.1 {status} {phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n"
            f"content-length: {len(text)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write((head + text).encode("ascii"))
        self.transport.close()

    # Parser callbacks

    def on_message_begin(self) -> None:
        if self.transport.is_closing():
            raise FramingError("The connection is closed.")  # its last answer said so: what follows is no request
        super().on_message_begin()
        self._receiving = self._in_head = True
        self._head_size = 0
        if self.waiting:
            self.expires = self.loop.time() + self._limits.head_seconds

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > self._limits.line_bytes:
            raise FramingError("Request line too long.")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # trailers: not used, and they must not pass for headers
        size = len(name) + len(value)
        self._head_size += size
        if size > self._limits.line_bytes or self._head_size > self._limits.head_bytes:
            raise FramingError("Request header fields too large.")
        if len(self.headers) >= self._limits.headers:
            raise FramingError("Too many request header fields.")
        name = name.lower()
        if name == b"expect":
            if value.lower() != b"100-continue":
                raise FramingError("Unknown expectation.", 417)
            self.expect_100_continue = True
        elif name == b"transfer-encoding" and value.lower() != b"chunked":
            raise FramingError("Unknown transfer coding.")  # the parser would find it after the request has begun
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._unframed = 0
        if len(self.pipeline) >= self._limits.pipelined:
            raise FramingError("Too many requests at once.")
        self._fill_scope()
        before = self.cycle
        self.cycle = ResponseCycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=[],
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=self.scope["http_version"] != "1.0" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        self.expires = math.inf
        self._accepted.slot.busy = True
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:  # pipelined: one after the other
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def _fill_scope(self) -> None:
        """Method, version, path and query. Paths that are not ASCII, and forms without a path, are no HTTP."""
        scope = self.scope
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["http_version"] = self.parser.get_http_version()
        url = httptools.parse_url(self.url)
        if not url.path:
            raise FramingError("Invalid HTTP request received.")
        scope["raw_path"] = url.path
        path = url.path.decode("ascii")
        scope["path"] = unquote(path) if "%" in path else path
        scope["query_string"] = url.query or b""
        ours = cast(dict[str, Any], scope)
        # Not a method of this object, whose buffers would wait for the garbage collector when a client has left.
        ours[ON_AUTHENTICATED] = partial(self._limiter.authenticated, self._accepted.slot)
        ours[KNOWN_ADDRESS] = self._limiter.knows(self._accepted.address)

    def on_body(self, body: bytes) -> None:
        self._unframed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._receiving = False
        self._unframed = 0
        super().on_message_complete()
        self.cycle.more_body = False
        if self.waiting and self.cycle.keep_alive:
            self.expires = self.loop.time() + self._limits.idle_seconds
        elif self.waiting:
            self.transport.close()

    # Responses out

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._answered = cycle
        self._task = task = self.loop.create_task(cycle.run_asgi(app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._accepted.slot.busy = False
        limits = self._limits
        self.expires = self.loop.time() + (limits.linger_seconds if self._receiving else limits.idle_seconds)

    def _should_upgrade_to_ws(self) -> bool:
        return False
