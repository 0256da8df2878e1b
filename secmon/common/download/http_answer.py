"""One answer of a server: its head is bounded, its content is handed on while it comes."""

from collections.abc import Callable

import httptools

from secmon.common.download.addresses import DownloadError

_MAX_HEAD = 65536
REDIRECTS = frozenset({301, 302, 303, 307, 308})
NOT_MODIFIED = 304


class HttpAnswer:
    """Takes the bytes of a connection. The content of an answer other than 200 is of no use, and not waited for."""

    def __init__(self, limit: int, write: Callable[[bytes], None]) -> None:
        """``limit``: bytes of the content; ``write`` gets its parts. Methods raise DownloadError."""
        self.status = 0
        self.complete = False
        self.received = 0
        """Bytes of the content so far."""
        self._limit, self._write = limit, write
        self._headers: dict[bytes, bytes] = {}
        self._head_size = 0
        self._headed = False
        self._parser = httptools.HttpResponseParser(self)

    @property
    def length(self) -> int | None:
        """Bytes of the content, as the server announces them."""
        length = self._headers.get(b"content-length", b"")
        return int(length) if length.isdigit() else None

    def header(self, name: bytes) -> str:
        """The value of a header, its name in lower case; empty without it."""
        return self._headers.get(name, b"").decode("latin-1")

    def feed(self, data: bytes) -> None:
        """Further bytes of the connection. Raises httptools.HttpParserError too."""
        self._head_size += 0 if self._headed else len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            raise cause if isinstance(cause, (DownloadError, OSError)) else error from None
        except httptools.HttpParserUpgrade:
            raise DownloadError("the server changes to another protocol") from None
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
        if not self._headed:
            self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._headed = self.status >= 200  # interim answers come before the real one
        if self.status != 200:
            self.complete = self._headed
            return
        if self._headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise DownloadError("the server sends it encoded, though it was asked not to")
        if self.length is not None and self.length > self._limit:
            raise DownloadError(f"it has {self.length} bytes, more than {self._limit}")

    def on_body(self, data: bytes) -> None:
        if self.status != 200:
            return
        self.received += len(data)
        if self.received > self._limit:
            raise DownloadError(f"it has more than {self._limit} bytes")
        self._write(data)

    def on_message_complete(self) -> None:
        self.complete = self._headed
