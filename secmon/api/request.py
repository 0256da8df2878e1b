"""One request as the adapter sees it: read off the ASGI scope once, its body with a bound in size and time."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from secmon.api.problems import RequestRefused
from secmon.api.request_log import NOT_PARSED
from secmon.common.accept.limiter import address_group
from secmon.common.identity import Identity
from secmon.common.logfile.secrets import SecretMasker
from secmon.common.trace import Trace

MIN_BODY_RATE = 500
"""Bytes per second that a body must arrive with, on the average over each ``seconds`` (see read_body)."""

MAX_PARSED_OF_STRANGERS = 65_536
"""Bytes of a body that is parsed for the log although its request has not been authenticated."""

MAX_SHOWN_PATH = 4096
"""Characters of a path that are considered for logs, which show fewer."""

NO_OPERATION = "none"

ON_AUTHENTICATED = "secmon.on_authenticated"
"""Key of the scope: a function to call when the request has proved who asks."""

KNOWN_ADDRESS = "secmon.known_address"
"""Key of the scope: whether the client's address has authenticated before."""


class Request:
    """Method, path, query, headers, peer; later also body and identity, for the answer and the log.

    ``path`` is percent-encoded. ``id`` is that of the call, which the logs of all nodes concerned name; empty for a
    request that got no further than the adapter. ``client`` is the address of the TCP peer: forwarding headers are
    never believed.
    """

    __slots__ = (
        "body", "client", "headers", "held", "id", "identity", "known", "method", "operation", "path", "query",
        "received", "scope", "trace",
    )  # fmt: skip

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["raw_path"].decode("ascii")
        self.query: bytes = scope["query_string"]
        self.headers: Mapping[bytes, bytes] = dict(scope["headers"])
        self.client = _address(scope["client"][0] if scope["client"] else "")
        self.body = b""
        self.identity: Identity | None = None
        self.held = 0
        self.known = False
        self.id = ""
        self.operation = NO_OPERATION
        """The id of the operation that it asks for."""
        self.received: float | None = None
        """When it was there as a whole: a reading of the monotonic clock."""
        self.trace: Trace | None = None
        """What its time is spent on from then on, where that is noted."""

    @property
    def shown_path(self) -> str:
        """The decoded path, for the log: without secrets, which a wrong request may have there."""
        path: str = SecretMasker(MAX_SHOWN_PATH).apply(self.scope["path"])
        return path

    def authenticated(self, identity: Identity) -> None:
        """The client has proved to be ``identity``: its address counts as known for limits of connections."""
        self.identity = identity
        self.scope[ON_AUTHENTICATED]()

    def header(self, name: bytes) -> str | None:
        """A header's value; the last one of a repeated header."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1").strip()

    @property
    def from_known_address(self) -> bool:
        """Whether a client of the same address has authenticated before."""
        return bool(self.scope[KNOWN_ADDRESS])

    @property
    def media_type(self) -> str:
        """Content-Type without its parameters; no header counts as octets (conventions.md 2.2)."""
        return (self.header(b"content-type") or "application/octet-stream").partition(";")[0].strip().lower()


def _address(host: str) -> str:
    """An IPv4 client of a dual-stack socket keeps its IPv4 name."""
    return host.removeprefix("::ffff:") if host.startswith("::ffff:") and "." in host else host


class BodyMemory:
    """The memory that the bodies of all requests may take together, in bytes.

    Bodies are read before the token is checked, so without this bound a few hundred clients without one could fill the
    memory of the host. Half of it is for known clients only. One address gets at most half of what its kind may take.
    """

    def __init__(self, capacity: float, is_known: Callable[[Request], bool] = lambda _request: False) -> None:
        """``is_known``: whether the client of a request has authenticated before."""
        self._capacity, self._is_known = capacity, is_known
        self._by_address: Counter[tuple[bool, str]] = Counter()
        self.held = 0
        self._held_by_strangers = 0

    def hold(self, request: Request, size: int) -> None:
        """``size`` more bytes for ``request``. Raises :class:`RequestRefused` 503 when there is no room."""
        if not request.held:
            request.known = self._is_known(request)
        if request.known:
            limit, taken = self._capacity, self.held
        else:
            limit, taken = self._capacity / 2, self._held_by_strangers
        full = taken + size > limit or self.held + size > self._capacity
        if full or self._by_address[_holder(request)] + size > limit / 2:
            raise RequestRefused(503, "Too many request bodies at once", close=True)
        self._add(request, size)

    def release(self, request: Request) -> None:
        """``request`` is over."""
        if request.held:
            self._add(request, -request.held)
            if not self._by_address[_holder(request)]:
                del self._by_address[_holder(request)]

    def _add(self, request: Request, size: int) -> None:
        request.held += size
        self.held += size
        self._held_by_strangers += 0 if request.known else size
        self._by_address[_holder(request)] += size


def _holder(request: Request) -> tuple[bool, str]:
    return request.known, address_group(request.client)


async def read_body(request: Request, receive: Receive, bodies: BodyMemory, *, limit: int, seconds: float) -> bytes:
    """The whole body. ``limit`` in bytes, 0 means none; ``seconds`` is its time, and again after each part that
    MIN_BODY_RATE asks of that time.

    Raises :class:`RequestRefused` 413 as soon as ``limit`` bytes have arrived or are announced (conventions.md 9.3),
    408 when it comes too slowly, 503 from ``bodies``, ``ClientDisconnect`` when the client disconnects.
    """
    announced = request.headers.get(b"content-length")
    if announced is None and b"transfer-encoding" not in request.headers:
        return b""
    if limit and announced is not None and int(announced) >= limit:
        raise _too_large(limit, int(announced))
    try:
        return await _receive_body(request, receive, bodies, limit, seconds)
    except TimeoutError:
        raise RequestRefused(408, "The body of the request did not arrive in time", close=True) from None


async def _receive_body(request: Request, receive: Receive, bodies: BodyMemory, limit: int, seconds: float) -> bytes:
    parts = bytearray()
    loop = asyncio.get_running_loop()
    counted = 0
    async with asyncio.timeout(seconds) as patience:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            part: bytes = message.get("body", b"")
            bodies.hold(request, len(part))
            parts += part
            if limit and len(parts) >= limit:
                raise _too_large(limit, len(parts))
            if not message.get("more_body"):
                return bytes(parts)
            if len(parts) - counted >= MIN_BODY_RATE * seconds:  # what came early is no credit for later
                counted = len(parts)
                patience.reschedule(loop.time() + seconds)


def _too_large(limit: int, size: int) -> RequestRefused:
    # The rest of the body is not wanted, and a client that goes on sending must not have it taken for a request.
    return RequestRefused(413, f"Maximum request body size {limit} exceeded, actual body size {size}", close=True)


def parse_query(raw: bytes, errors: str = "strict") -> list[tuple[str, str]]:
    """Pairs of names and values: only ``&`` separates, ``+`` is a space, decoded once (conventions.md 4.1).

    Raises ValueError when they are not UTF-8, unless ``errors`` says ``replace``.
    """
    if not raw:
        return []
    pairs = []
    for pair in raw.replace(b"+", b" ").split(b"&"):
        name, _, value = pair.partition(b"=")
        if name:
            pairs.append(
                (unquote_to_bytes(name).decode("utf-8", errors), unquote_to_bytes(value).decode("utf-8", errors))
            )
    return pairs


def logged_query(raw: bytes) -> dict[str, str]:
    """The query for the request log: the first value of each name (conventions.md 12)."""
    shown: dict[str, str] = {}
    for name, value in parse_query(raw, "replace"):
        shown.setdefault(name, value)
    return shown


def logged_body(raw: bytes, *, authenticated: bool = True) -> Any:
    """The body for the request log: parsed when it is JSON, ``{}`` otherwise.

    A large one of a request without a valid token is not parsed: ten megabytes of small values take a second.
    """
    if not raw:
        return {}
    if not authenticated and len(raw) > MAX_PARSED_OF_STRANGERS:
        return NOT_PARSED
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
