"""The web console: files below ``/console``, made by ``make console`` and held in memory.

The console is a client of the public API like any other. Its files hold no data, so they need no token, and they count
neither for the limit of requests per minute nor for the request log.
"""

import gzip
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from secmon.api.problems import problem
from secmon.common.counters import Counters

PATH = "/console"
FOLDER = Path(__file__).parent / "static"

NOT_INSTALLED = """\
The console is not installed on this node. The API works without it.

To install it, run "make console" in the folder of the sources, and restart the node: secmon restart
A node that was installed from a wheel needs one that was made after that: pip wheel --no-deps .
"""

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_NAME = re.compile(r"[\w-]+(\.[\w-]+)+")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "strict-transport-security": "max-age=63072000; includeSubdomains",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "vary": "Accept-Encoding",
}
_ALWAYS_FRESH = "no-cache"
_UNCHANGING = "public, max-age=31536000, immutable"
"""Of files with a hash of their content in their name."""


@dataclass(frozen=True)
class _File:
    compressed: bytes
    media_type: str
    caching: str


def is_console(path: str) -> bool:
    """Whether a request for ``path`` (decoded) is one for the console."""
    return path == PATH or path.startswith(f"{PATH}/")


class Console:
    """An ASGI application for the paths of :func:`is_console`.

    A path is looked up among the files that the folder had at the start; none is opened by its name later.
    """

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._files = _read(FOLDER)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._counters.add("api.console.requests")
        await self._answer(scope)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response:
        if scope["method"] not in ("GET", "HEAD"):
            return problem(405, "Method Not Allowed", "405: Method Not Allowed")
        file = self._files.get(scope["path"])
        if file is not None:
            return _response(file, dict(scope["headers"]).get(b"accept-encoding", b""))
        if PATH not in self._files:
            return Response(NOT_INSTALLED, 404, _HEADERS | {"cache-control": _ALWAYS_FRESH}, "text/plain")
        return problem(404, "Not Found", "404: Not Found")


def _read(folder: Path) -> Mapping[str, _File]:
    """The files by their paths; nothing when the console was not made."""
    found = {}
    for file in sorted(folder.glob("*.gz")):
        name = file.name.removesuffix(".gz")
        media_type = _TYPES.get(Path(name).suffix)
        if media_type is not None and _NAME.fullmatch(name) and file.is_file():
            caching = _ALWAYS_FRESH if name == "index.html" else _UNCHANGING
            found[f"{PATH}/{name}"] = _File(file.read_bytes(), media_type, caching)
    if index := found.pop(f"{PATH}/index.html", None):
        found[PATH] = found[f"{PATH}/"] = index
    return found


def _response(file: _File, accepted: bytes) -> Response:
    headers = _HEADERS | {"cache-control": file.caching}
    if b"gzip" not in accepted:
        return Response(gzip.decompress(file.compressed), 200, headers, file.media_type)
    return Response(file.compressed, 200, headers | {"content-encoding": "gzip"}, file.media_type)
