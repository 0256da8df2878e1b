"""What goes back to a client: the headers of every response (conventions.md 10.1), ready to be sent."""

from collections.abc import Sequence

from starlette.responses import Response

Header = tuple[bytes, bytes]

SECURITY_HEADERS: tuple[Header, ...] = (
    (b"strict-transport-security", b"max-age=63072000; includeSubdomains"),
    (b"x-frame-options", b"DENY"),
    (b"x-xss-protection", b"1; mode=block"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"none"),
    (b"referrer-policy", b"no-referrer, strict-origin-when-cross-origin"),
    (b"pragma", b"no-cache"),
    (b"expires", b"0"),
    (b"cache-control", b"no-cache, no-store, must-revalidate, max-age=0"),
)

JSON_TYPE = b"application/json; charset=utf-8"
TEXT_TYPE = b"text/plain; charset=utf-8"
CLOSE: Header = (b"connection", b"close")


class ApiResponse(Response):
    """A response whose header bytes are ready: nothing is encoded twice on the hot path."""

    def __init__(self, status: int, body: bytes, content_type: bytes, extra: Sequence[Header] = ()) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [
            *SECURITY_HEADERS,
            (b"content-type", content_type),
            (b"content-length", b"%d" % len(body)),
            *extra,
        ]
