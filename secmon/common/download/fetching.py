"""Requests for one file, over redirects, until it is there."""

import asyncio
import hashlib
import io
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, NamedTuple
from urllib.parse import SplitResult

import httptools
from msgspec import Struct

from secmon import __version__
from secmon.common.download.addresses import (
    ANYWHERE,
    PORTS,
    DownloadError,
    check_url,
    reach_of,
    redirected,
    resolve,
    same_server,
)
from secmon.common.download.http_answer import NOT_MODIFIED, REDIRECTS, HttpAnswer

MAX_REDIRECTS = 5
_CHUNK = 65536
_BUFFER = 1 << 20
_MIN_RATE = 1000
_PATIENCE_SECONDS = 30.0
"""Bytes per second that the answer must come with, on the average after this time."""

Progress = Callable[[int, int | None], None]


class Validators(Struct, frozen=True, kw_only=True):
    """What a server calls the version of a file that it has sent: its headers ETag and Last-Modified."""

    etag: str = ""
    last_modified: str = ""


class Fetched(NamedTuple):
    """A file that has come: its bytes, its digest in hexadecimal digits, and what to ask with the next time."""

    size: int
    sha256: str
    validators: Validators


async def download(
    url: str,
    *,
    limit: int,
    seconds: float,
    trust: ssl.SSLContext | None = None,
    headers: Mapping[str, str] | None = None,
    patience: float = _PATIENCE_SECONDS,
) -> bytes:
    """The content at ``url``, in memory. Parameters and errors are those of :func:`fetch`."""
    content = io.BytesIO()
    await fetch(url, content, limit=limit, seconds=seconds, trust=trust, headers=headers, patience=patience)
    return content.getvalue()


async def fetch(
    url: str,
    file: IO[bytes],
    *,
    limit: int,
    seconds: float,
    known: Validators | None = None,
    sha256: str = "",
    internal_redirects: bool = False,
    trust: ssl.SSLContext | None = None,
    headers: Mapping[str, str] | None = None,
    patience: float = _PATIENCE_SECONDS,
    progress: Progress = lambda received, total: None,
) -> Fetched | None:
    """Write the content at ``url`` to ``file``: at most ``limit`` bytes, within ``seconds`` for everything.

    None: the server says that its file is still the one of ``known``, and ``file`` is as it was. ``sha256``: the digest
    that the content must have. ``internal_redirects``: redirects may lead further into this network. ``trust`` None:
    the system's authorities. ``headers``: further ones, for the server that ``url`` names; one that it redirects to
    does not get them. ``patience``: seconds after which an answer that is too slow is abandoned. ``progress`` is called
    with the bytes received and, if it is known, their number in all.
    Raises DownloadError, also when ``file`` cannot be written; it may hold a part then.
    """
    sink, first = _Sink(file), url
    conditions = _conditions(known or Validators())
    try:
        async with asyncio.timeout(seconds):
            bounds = _Bounds(limit, patience, ANYWHERE, progress)
            for _ in range(MAX_REDIRECTS + 1):
                parts = check_url(url)
                own = (headers or {}) if same_server(url, first) else {}
                answer, reach = await _get(parts, bounds, trust, {**conditions, **own}, sink)
                if answer.status not in REDIRECTS:
                    return await _finish(answer, sink, sha256, conditional=bool(conditions))
                bounds = bounds._replace(reach=ANYWHERE if internal_redirects else reach)
                url = redirected(url, answer.header(b"location"))
    except TimeoutError:
        raise DownloadError(f"not finished within {seconds:g} s") from None
    except (OSError, EOFError, ValueError, httptools.HttpParserError) as error:  # ssl's errors are OSErrors
        raise DownloadError(str(error) or type(error).__name__) from error
    raise DownloadError(f"more than {MAX_REDIRECTS} redirects")


class _Bounds(NamedTuple):
    """Bytes of the content, seconds before its rate counts, and how far inside the server may be (``reach_of``)."""

    limit: int
    patience: float
    reach: int
    progress: Progress = lambda received, total: None


class _Connection(NamedTuple):
    address: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class _Sink:
    """Writes and digests in a thread, a mebibyte at a time."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._buffer = bytearray()
        self._digest = hashlib.sha256()

    def take(self, data: bytes) -> None:
        self._buffer += data

    async def flush(self, *, least: int) -> None:
        """Write what has come if it has at least so many bytes. Raises OSError."""
        if len(self._buffer) >= least:
            data, self._buffer = self._buffer, bytearray()
            await asyncio.to_thread(self._write, data)

    def _write(self, data: bytearray) -> None:
        self._digest.update(data)
        self._file.write(data)

    def sha256(self) -> str:
        return self._digest.hexdigest()


async def _finish(answer: HttpAnswer, sink: _Sink, sha256: str, *, conditional: bool) -> Fetched | None:
    if answer.status == NOT_MODIFIED and conditional:
        return None
    if answer.status != 200:
        raise DownloadError(f"the server answers with status {answer.status}")
    await sink.flush(least=1)
    if sha256 and sink.sha256() != sha256.lower():
        raise DownloadError(f"its SHA-256 is {sink.sha256()}, not {sha256.lower()}")
    validators = Validators(etag=answer.header(b"etag"), last_modified=answer.header(b"last-modified"))
    return Fetched(answer.received, sink.sha256(), validators)


def _conditions(known: Validators) -> dict[str, str]:
    headers = {"If-None-Match": known.etag, "If-Modified-Since": known.last_modified}
    return {name: value for name, value in headers.items() if value}


async def _get(
    url: SplitResult, bounds: _Bounds, trust: ssl.SSLContext | None, headers: Mapping[str, str], sink: _Sink
) -> tuple[HttpAnswer, int]:
    """The answer, and how far inside the server is that gave it."""
    context = (trust or await asyncio.to_thread(ssl.create_default_context)) if url.scheme == "https" else None
    connection = await _connect(url, bounds.reach, context)
    try:
        answer = HttpAnswer(bounds.limit, sink.take)
        connection.writer.write(_request(url, headers))
        await _read_answer(connection.reader, answer, bounds, sink)
        return answer, reach_of(connection.address)
    finally:
        connection.writer.transport.abort()  # nothing is left to be said; a slow peer must not keep us


async def _connect(url: SplitResult, reach: int, context: ssl.SSLContext | None) -> _Connection:
    """To the first address that takes the connection. Raises DownloadError, and OSError of the last one."""
    *others, last = await resolve(url, reach)
    for address in others:
        with suppress(OSError):
            return await _open(url, address, context)
    return await _open(url, last, context)


async def _open(url: SplitResult, address: str, context: ssl.SSLContext | None) -> _Connection:
    name = url.hostname if context else None
    port = url.port or PORTS[url.scheme]
    streams = await asyncio.open_connection(address, port, ssl=context, server_hostname=name, limit=_CHUNK)
    return _Connection(address, *streams)


async def _read_answer(reader: asyncio.StreamReader, answer: HttpAnswer, bounds: _Bounds, sink: _Sink) -> None:
    started, patience = asyncio.get_running_loop().time(), bounds.patience
    try:
        async with asyncio.timeout_at(started + patience) as limit:
            while not answer.complete:
                data = await reader.read(_CHUNK)
                if data:
                    answer.feed(data)
                    bounds.progress(answer.received, answer.length)
                    await sink.flush(least=_BUFFER)
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
    return "\r\n".join(lines).encode("latin-1")  # as the validators were decoded
