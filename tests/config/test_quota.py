"""Asking a service for a quota: a real server, honest and otherwise."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from secmon.common.errors import SecmonError
from secmon.config.quota import hourly_quota

GOOD = b'{"data": {"api_requests_hourly": {"user": {"allowed": 240, "used": 3}}}}'
ANSWERS = {
    "good": (200, GOOD),
    "denied": (401, b"{}"),
    "empty": (200, b""),
    "html": (200, b"<html>"),
    "shape": (200, b'{"data": {}}'),
    "text": (200, GOOD.replace(b"240", b'"240"')),
}


class Handler(BaseHTTPRequestHandler):
    seen: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        key = self.path.split("/")[4]
        self.seen.append((self.path, self.headers["x-apikey"]))
        if key == "moved":
            self.send_response(302)
            self.send_header("Location", "/api/v3/users/good/overall_quotas")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        status, body = ANSWERS[key]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def service() -> Iterator[str]:
    Handler.seen = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_quota_is_read(service: str) -> None:
    assert hourly_quota("good", service=service) == 240
    assert Handler.seen == [("/api/v3/users/good/overall_quotas", "good")]


@pytest.mark.parametrize("key", ["denied", "empty", "html", "shape", "text", "moved", "line\nbreak"])
def test_anything_else_is_no_quota(service: str, key: str) -> None:
    with pytest.raises(SecmonError) as caught:
        hourly_quota(key, service=service)
    assert caught.value.code == 1131
    assert key not in str(caught.value)
    assert len(Handler.seen) <= 1  # a redirection is not followed


def test_a_service_that_is_not_there_is_no_quota() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(SecmonError, match="1131"):
        hourly_quota("k", service=f"http://127.0.0.1:{port}")


def test_a_service_that_is_silent_is_no_quota() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(SecmonError, match="1131"):
        hourly_quota("k", service=f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.05)
