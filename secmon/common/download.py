"""Fetching a file over HTTP or HTTPS: bounded in size and time, cancelled at once, without a thread.

Redirects are followed to other addresses of these two kinds, but from HTTPS to HTTPS only, and never from a public
server into private networks, or from one of these to the host itself. Certificates are checked against the system's
authorities.
"""

import asyncio
import ipaddress
import ssl
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

import httptools

from secmon import __version__

MAX_REDIRECTS = 5
_MAX_HEAD = 65536
_CHUNK = 65536
_MIN_RATE = 1000
_PATIENCE_SECONDS = 30.0
"""Bytes per second that the answer must come with, on the average after this time."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PORTS = {"http": 80, "https": 443}


class DownloadError(Exception):
    """A download that failed; says why."""


async def download(
    url: str,
    *,
    limit: int,
    seconds: float,
    trust: ssl.SSLContext | None = None,
    headers: Mapping[str, str] | None = None,
    patience: float = _PATIENCE_SECONDS,
    progress: Callable[[int, int | None], None] = lambda received, total: None,
) -> bytes:
    """The content at ``url``: at most ``limit`` bytes, within ``seconds`` for everything.

    ``trust`` None: the system's authorities. ``headers``: further ones, for the server that ``url`` names; one that it
    redirects to does not get them. ``patience``: seconds after which an answer that is too slow is abandoned.
    ``progress`` is called with the bytes received and, if it is known, their number in all.
    Raises DownloadError.
    """
    first = url
    try:
        async with asyncio.timeout(seconds):
            reach = None
            for _ in range(MAX_REDIRECTS + 1):
                parts = check_url(url)
                further = (headers or {}) if _same_server(parts, first) else {}
                answer = await _get(parts, _Bounds(limit, patience, reach, progress), trust, further)
                if answer.status not in _REDIRECTS:
                    return answer.content()
                reach = answer.reach
                url = _redirected(url, answer.location())
    except TimeoutError:
        raise DownloadError(f"not finished within {seconds:g} s") from None
    except (OSError, EOFError, ValueError, httptools.HttpParserError) as error:  # ssl's errors are OSErrors
        raise DownloadError(str(error) or type(error).__name__) from error
    raise DownloadError(f"more than {MAX_REDIRECTS} redirects")


def check_url(url: str) -> SplitResult:
    """The parts of an address to download from. Raises DownloadError."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in _PORTS and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError as error:
        raise DownloadError(f"{url[:200]!r}: {error}") from None
    if not known or any(ord(character) <= 32 for character in url):
        raise DownloadError(f"{url[:200]!r} is no address beginning with http:// or https://")
    if parts.username is not None:
        raise DownloadError("an address must not hold a user or password")
    return parts


class _Bounds(NamedTuple):
    """Bytes of the content, seconds before its rate counts, and how far inside the server may be (:func:`_reach`)."""

    limit: int
    patience: float
    reach: int | None
    progress: Callable[[int, int | None], None] = lambda received, total: None


def _reach(address: str) -> int:
    """How far inside an address is: 0 public, 1 in a private network, 2 this host or its link."""
    found = ipaddress.ip_address(address.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    if found.is_loopback or found.is_link_local or found.is_unspecified:
        return 2
    return 0 if found.is_global else 1


def _redirected(url: str, location: str) -> str:
    target = urljoin(url, location)
    if url.lower().startswith("https:") and not target.lower().startswith("https:"):
        raise DownloadError("it redirects from https:// to another kind of address")
    return target


def _same_server(parts: SplitResult, url: str) -> bool:
    first = urlsplit(url)
    return (parts.scheme, parts.netloc) == (first.scheme, first.netloc)


class _Answer:
    """Collects what the parser reads."""

    def __init__(self, limit: int) -> None:
        self.status = 0
        self.complete = False
        self.reach = 0
        self._limit = limit
        self._headers: dict[bytes, bytes] = {}
        self._head_size = 0
        self._headed = False
        self._body = bytearray()
        self._parser = httptools.HttpResponseParser(self)

    @property
    def received(self) -> int:
        """Bytes of the content so far."""
        return len(self._body)

    @property
    def length(self) -> int | None:
        """Bytes of the content, as the server announces them."""
        length = self._headers.get(b"content-length", b"")
        return int(length) if length.isdigit() else None

    def feed(self, data: bytes) -> None:
        self._head_size += 0 if self._headed else len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            raise error.__context__ if isinstance(error.__context__, DownloadError) else error from None
        if not self._headed and self._head_size > _MAX_HEAD:
            raise DownloadError("the head of the answer is too long")

    def end(self) -> None:
        """The connection was closed: right only where the answer lasts until then."""
        if not self._headed or {b"content-length", b"transfer-encoding"} & self._headers.keys():
            raise DownloadError("the connection was closed before the end of the answer")
        self.complete = True

    def on_message_begin(self) -> None:
        self._headers.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_size += len(name) + len(value) if self._headed else 0  # a trailer has headers too
        if self._head_size > _MAX_HEAD:
            raise DownloadError("the head of the answer is too long")
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._headed = self.status >= 200  # interim answers come before the real one
        if self.length is not None and self.length > self._limit:
            raise DownloadError(f"it has {self.length} bytes, more than {self._limit}")

    def on_body(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > self._limit:
            raise DownloadError(f"it has more than {self._limit} bytes")

    def on_message_complete(self) -> None:
        self.complete = self._headed

    def location(self) -> str:
        return self._headers.get(b"location", b"").decode("latin-1")

    def content(self) -> bytes:
        if self.status != 200:
            raise DownloadError(f"the server answers with status {self.status}")
        if self._headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise DownloadError("the server sends it encoded, though it was asked not to")
        return bytes(self._body)


async def _get(url: SplitResult, bounds: _Bounds, trust: ssl.SSLContext | None, headers: Mapping[str, str]) -> _Answer:
    secure = url.scheme == "https"
    host, port = url.hostname or "", url.port or _PORTS[url.scheme]
    context = (trust or await asyncio.to_thread(ssl.create_default_context)) if secure else None
    reader, writer = await asyncio.open_connection(
        host, port, ssl=context, server_hostname=host if secure else None, limit=_CHUNK
    )
    try:
        answer = _Answer(bounds.limit)
        answer.reach = _reach(writer.get_extra_info("peername")[0])
        if bounds.reach is not None and answer.reach > bounds.reach:
            raise DownloadError(f"it redirects to {host}, an address inside this network")
        writer.write(_request(url, headers))
        await _read_answer(reader, answer, bounds)
        return answer
    finally:
        writer.transport.abort()  # nothing is left to be said; a slow peer must not keep us


async def _read_answer(reader: asyncio.StreamReader, answer: _Answer, bounds: _Bounds) -> None:
    started, patience = asyncio.get_running_loop().time(), bounds.patience
    try:
        async with asyncio.timeout_at(started + patience) as limit:
            while not answer.complete:
                data = await reader.read(_CHUNK)
                if data:
                    answer.feed(data)
                    bounds.progress(answer.received, answer.length)
                else:
                    answer.end()
                limit.reschedule(started + patience + answer.received / _MIN_RATE)
    except TimeoutError:
        raise DownloadError(f"the answer comes at less than {_MIN_RATE} bytes a second") from None


def _request(url: SplitResult, further: Mapping[str, str]) -> bytes:
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    headers: Mapping[str, str] = {
        "Host": url.netloc,
        "User-Agent": f"secmon/{__version__}",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Connection": "close",
        **further,
    }
    lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("ascii")
