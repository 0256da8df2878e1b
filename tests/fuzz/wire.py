"""HTTP/1.1 over TLS, byte for byte: what is sent is not made any better, what comes back is read strictly."""

import socket
import ssl
from collections.abc import Iterable
from http.client import HTTPException, HTTPResponse
from typing import NamedTuple

from tests.waiting import LIMIT_SECONDS

"""Seconds without a byte after which the server counts as hanging; its own limits are 10 (requests), 20 (bodies)."""

Header = tuple[bytes, bytes]


class Reply(NamedTuple):
    """A whole response. Header names are lower-cased; ``status`` 0: the connection was closed without one."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "")


CLOSED = Reply(0, {}, b"")


class Wire:
    """Requests to one port, on one connection while the server keeps it open."""

    def __init__(self, address: str, port: int) -> None:
        self._peer = (address, port)
        self._context = ssl.create_default_context()
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE
        self._socket: ssl.SSLSocket | None = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def send(self, method: str, target: bytes, headers: Iterable[Header] = (), body: bytes | None = None) -> Reply:
        """One request with the headers given, ``Host``, and ``Content-Length`` when there is a body."""
        lines = [b"%s %s HTTP/1.1" % (method.encode("latin-1"), target), b"Host: test"]
        lines += [b"%s: %s" % one for one in headers]
        if body is not None:
            lines.append(b"Content-Length: %d" % len(body))
        return self.raw(b"\r\n".join(lines) + b"\r\n\r\n" + (body or b""), method)

    def raw(self, data: bytes, method: str = "GET") -> Reply:
        """The response to exactly these bytes. A connection that the server has closed meanwhile is replaced."""
        reused = self._socket is not None
        reply = self._exchange(data, method)
        return self._exchange(data, method) if reply is CLOSED and reused else reply

    def _exchange(self, data: bytes, method: str) -> Reply:
        if self._socket is None:
            plain = socket.create_connection(self._peer, LIMIT_SECONDS)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = self._context.wrap_socket(plain)
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            pass  # refused before all was sent: the answer may still be there
        response = HTTPResponse(self._socket, method=method)
        try:
            response.begin()
            body = response.read()
        except TimeoutError:
            self.close()
            raise AssertionError(f"no answer within {LIMIT_SECONDS} s to {data[:500]!r}") from None
        except (HTTPException, ConnectionError, ssl.SSLError):
            self.close()
            return CLOSED
        headers = {name.lower(): value for name, value in response.getheaders()}
        if response.will_close:
            self.close()
        response.close()
        return Reply(response.status, headers, body)
