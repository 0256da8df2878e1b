"""Cross-origin requests of browsers (conventions.md 10.2)."""

from collections.abc import Set

from secmon.api.problems import RequestRefused
from secmon.api.request import Request
from secmon.api.responses import TEXT_TYPE, ApiResponse, Header
from secmon.config.api import Cors as Settings


class Cors:
    """Decides on the headers that let a browser hand a response to a script of another origin."""

    def __init__(self, settings: Settings) -> None:
        self._origin = settings.source_route
        self._credentials = settings.allow_credentials
        self._exposed = _names(settings.expose_headers)
        self._allowed = _names(settings.allow_headers)

    def decorate(self, request: Request, answer: ApiResponse) -> None:
        """Add the headers to ``answer``, when the request comes from the allowed origin."""
        answer.raw_headers.append((b"vary", b"Origin"))
        origin = request.header(b"origin")
        if origin is None or not self._allows(origin):
            return
        exposed = self._exposed
        if exposed is None:
            exposed = [name.decode("latin-1") for name, _ in answer.raw_headers]
        answer.raw_headers += self._granted(origin)
        answer.raw_headers.append((b"access-control-expose-headers", ", ".join(exposed).encode("latin-1")))

    def preflight(self, request: Request, methods: Set[str]) -> ApiResponse:
        """The answer to an OPTIONS request on a path that has ``methods``. Raises :class:`RequestRefused` 403."""
        origin = request.header(b"origin")
        if origin is None:
            raise _refused("origin header is not specified in the request")
        method = request.header(b"access-control-request-method")
        if method is None:
            raise _refused("'Access-Control-Request-Method' header is not specified")
        if not self._allows(origin):
            raise _refused(f"origin '{origin}' is not allowed")
        if method not in methods:
            raise _refused(f"request method '{method}' is not allowed for '{origin}' origin")
        wanted = [
            name.strip().upper()
            for name in (request.header(b"access-control-request-headers") or "").split(",")
            if name.strip()
        ]
        allowed = self._allowed
        if allowed is not None and (wrong := set(wanted) - {name.upper() for name in allowed}):
            raise _refused(f"headers are not allowed: {', '.join(sorted(wrong))}")
        extra = [*self._granted(origin), (b"access-control-allow-methods", method.encode("latin-1"))]
        if wanted:
            extra.append((b"access-control-allow-headers", ",".join(wanted).encode("latin-1")))
        return ApiResponse(200, b"", TEXT_TYPE, extra)

    def _allows(self, origin: str) -> bool:
        return self._origin in ("*", origin)

    def _granted(self, origin: str) -> list[Header]:
        granted = [(b"access-control-allow-origin", origin.encode("latin-1"))]
        if self._credentials:
            granted.append((b"access-control-allow-credentials", b"true"))
        return granted


def _names(configured: str | tuple[str, ...]) -> list[str] | None:
    """Header names; None for ``*``, which means all."""
    if configured == "*" or configured == ("*",):
        return None
    parts = configured.split(",") if isinstance(configured, str) else configured
    return [name.strip() for name in parts if name.strip()]


def _refused(reason: str) -> RequestRefused:
    return RequestRefused(403, f"CORS preflight request failed: {reason}", title="Forbidden")
