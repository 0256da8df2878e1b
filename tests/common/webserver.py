"""An HTTP server of canned answers, for what downloads."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """An answer with the length of its body."""
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(head).encode() + body


@dataclass
class WebServer:
    """``pages``: whole answers by path, as bytes; ``slow``: paths whose answers never end.

    ``asked``: paths of the requests so far, ``heads``: their headers, names in lower case.
    """

    pages: dict[str, bytes] = field(default_factory=dict)
    slow: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    heads: list[dict[str, str]] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    scheme: str = "http"

    def url(self, path: str) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            path = (await reader.readline()).split()[1].decode()
            head: dict[str, str] = {}
            while line := (await reader.readline()).strip():
                name, _, value = line.decode("latin-1").partition(":")
                head[name.lower()] = value.strip()
            self.asked.append(path)
            self.heads.append(head)
            writer.write(self.pages.get(path, answer(b"", status="404 Not Found")))
            if path in self.slow:
                await reader.read()
        except (OSError, IndexError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def web_server(pages: Mapping[str, bytes], *, tls: ssl.SSLContext | None = None) -> AsyncIterator[WebServer]:
    server = WebServer(dict(pages), scheme="https" if tls else "http")
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
