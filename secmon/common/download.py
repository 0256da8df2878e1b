"""Fetching a file over HTTP or HTTPS: bounded in size and time, cancelled at once, without a thread.

Redirects are followed to other addresses of these two kinds. Certificates are checked against the system's authorities.
"""

import asyncio
import ssl
from collections.abc import Mapping
from urllib.parse import SplitResult, urljoin, urlsplit

import httptools

from secmon import __version__

MAX_REDIRECTS = 5
_MAX_HEAD = 65536
_CHUNK = 65536
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
) -> bytes:
    """The content at ``url``: at most ``limit`` bytes, within ``seconds`` for everything.

    ``trust`` None: the system's authorities. ``headers``: further ones, for the server that ``url`` names; one that it
    redirects to does not get them. Raises DownloadError.
    """
    first = url
    try:
        async with asyncio.timeout(seconds):
            for _ in range(MAX_REDIRECTS + 1):
                parts = check_url(url)
                answer = await _get(parts, limit, trust, (headers or {}) if _same_server(parts, first) else {})
                if answer.status not in _REDIRECTS:
                    return answer.content()
                url = urljoin(url, answer.location())
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


def _same_server(parts: SplitResult, url: str) -> bool:
    first = urlsplit(url)
    return (parts.scheme, parts.netloc) == (first.scheme, first.netloc)


class _Answer:
    """Collects what the parser reads."""

    def __init__(self, limit: int) -> None:
        self.status = 0
        self.complete = False
        self._limit = limit
        self._headers: dict[bytes, bytes] = {}
        self._head_size = 0
        self._headed = False
        self._body = bytearray()
        self._parser = httptools.HttpResponseParser(self)

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
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        length = self._headers.get(b"content-length", b"")
        self._headed = self.status >= 200  # interim answers come before the real one
        if length.isdigit() and int(length) > self._limit:
            raise DownloadError(f"it has {int(length)} bytes, more than {self._limit}")

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


async def _get(url: SplitResult, limit: int, trust: ssl.SSLContext | None, headers: Mapping[str, str]) -> _Answer:
    secure = url.scheme == "https"
    host, port = url.hostname or "", url.port or _PORTS[url.scheme]
    context = (trust or await asyncio.to_thread(ssl.create_default_context)) if secure else None
    reader, writer = await asyncio.open_connection(
        host, port, ssl=context, server_hostname=host if secure else None, limit=_CHUNK
    )
    try:
        writer.write(_request(url, headers))
        answer = _Answer(limit)
        while not answer.complete:
            data = await reader.read(_CHUNK)
            if data:
                answer.feed(data)
            else:
                answer.end()
        return answer
    finally:
        writer.transport.abort()  # nothing is left to be said; a slow peer must not keep us


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
