"""Writing a response: uvicorn's cycle of one request, with a short way for what the adapter sends.

The adapter answers with whole bodies and header bytes that are ready, so head and body go out in one write: one TLS
record, one system call, where the general way takes two and looks at every header name and value by itself.
"""

from uvicorn._types import ASGISendEvent, HTTPResponseStartEvent
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

ONE_WRITE_BYTES = 65_536
"""Bodies up to this size are copied behind their head."""


class ResponseCycle(RequestResponseCycle):
    """One request and its response."""

    _head: HTTPResponseStartEvent | None = None

    async def send(self, message: ASGISendEvent) -> None:
        """ASGI ``send``. The head of a response waits for its body."""
        if message["type"] == "http.response.start":
            self._head = message
            return
        head, self._head = self._head, None
        if (
            head is None
            or message["type"] != "http.response.body"
            or message.get("more_body")
            or self.response_started
            or self.scope["method"] == "HEAD"
        ):
            if head is not None:
                await super().send(head)
            await super().send(message)
            return
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if not self.disconnected:
            self._write(head, message.get("body", b""))

    def _write(self, head: HTTPResponseStartEvent, body: bytes) -> None:
        self.waiting_for_100_continue = False
        lines = b"".join([b"%b: %b\r\n" % header for header in head["headers"]])
        if lines.count(b"\n") != len(list(head["headers"])) or b"\r\ncontent-length: " not in lines:
            raise RuntimeError("a response header holds a line break, or there is no Content-Length")
        if b"\r\nconnection: close\r\n" in lines:
            self.keep_alive = False
        elif not self.keep_alive:
            lines += b"connection: close\r\n"
        self.response_started = True
        start = b"%b%b\r\n" % (STATUS_LINE[head["status"]], lines)
        if len(body) <= ONE_WRITE_BYTES:
            self.transport.write(start + body)
        else:
            self.transport.write(start)
            self.transport.write(body)
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive and not self.more_body:  # else the protocol closes, when the rest has come or is late
            self.transport.close()
        self.on_response()
