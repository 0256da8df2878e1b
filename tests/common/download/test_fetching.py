"""Downloads from real servers, good and bad."""

import hashlib
import io
import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from secmon.common.clock import SystemClock
from secmon.common.download import DownloadError, Fetched, Validators, check_url, download, fetch
from secmon.common.download.fetching import _Bounds, _get, _Sink
from secmon.common.self_signed import self_signed
from tests.common.webserver import answer, web_server
from tests.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.anyio

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("page", "content"),
    [
        (answer(b"hello"), b"hello"),
        (answer(b""), b""),
        (CHUNKED, b"abcde"),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"late"), b"late"),
    ],
)
async def test_answers(page: bytes, content: bytes) -> None:
    async with web_server({"/file": page}) as server:
        assert await download(server.url("/file"), limit=100, seconds=LIMIT_SECONDS) == content


async def test_the_query_is_sent() -> None:
    async with web_server({"/f?a=b&c": answer(b"x")}) as server:
        assert await download(server.url("/f?a=b&c"), limit=9, seconds=LIMIT_SECONDS) == b"x"


async def test_redirects() -> None:
    pages = {
        "/a": answer(b"", "Location: /b", status="302 Found"),
        "/b": answer(b"", "Location: c", status="301 Moved"),
        "/c": answer(b"there"),
        "/loop": answer(b"", "Location: /loop", status="307 Temporary Redirect"),
        "/away": answer(b"", "Location: file:///etc/passwd", status="302 Found"),
        "/nowhere": answer(b"", status="302 Found"),
    }
    async with web_server(pages) as server:
        assert await download(server.url("/a"), limit=9, seconds=LIMIT_SECONDS) == b"there"
        for path, text in (("/loop", "redirects"), ("/away", "http://"), ("/nowhere", "redirects")):
            with pytest.raises(DownloadError, match=text):
                await download(server.url(path), limit=9, seconds=LIMIT_SECONDS)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (answer(b"", status="404 Not Found"), "status 404"),
        (answer(b"12345678901"), "11 bytes, more than 10"),
        (b"HTTP/1.1 200 OK\r\n\r\n12345678901", "more than 10"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "before the end"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", "before the end"),
        (b"", "before the end"),
        (b"no http at all\r\n\r\n", "."),
        (answer(b"x", "Content-Encoding: gzip"), "encoded"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, "head"),
        (b"HTTP/1.1 101 Now\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc", "protocol"),
    ],
)
async def test_bad_answers(page: bytes, text: str) -> None:
    async with web_server({"/file": page}) as server:
        with pytest.raises(DownloadError, match=text):
            await download(server.url("/file"), limit=10, seconds=LIMIT_SECONDS)


async def test_trailers_without_end_are_refused() -> None:
    trailers = b"".join(b"X-%d: %b\r\n" % (number, b"a" * 1000) for number in range(200))
    page = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + trailers
    async with web_server({"/x": page}) as server:
        server.slow.add("/x")
        with pytest.raises(DownloadError, match="head of the answer is too long"):
            await download(server.url("/x"), limit=9, seconds=LIMIT_SECONDS)


async def test_a_server_that_drips_is_left() -> None:
    async with web_server({"/x": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"}) as server:
        server.slow.add("/x")
        with pytest.raises(DownloadError, match="at less than 1000 bytes a second"):
            await download(server.url("/x"), limit=9, seconds=600, patience=0.1)


async def test_redirects_lead_to_no_weaker_transport(tmp_path: Path) -> None:
    tls, trust = _transport(tmp_path)
    async with web_server({"/x": answer(b"plain")}) as plain:
        page = answer(b"", f"Location: {plain.url('/x')}", status="302 Found")
        async with web_server({"/x": page}, tls=tls) as server:
            with pytest.raises(DownloadError, match="redirects from https"):
                await download(server.url("/x"), limit=9, seconds=LIMIT_SECONDS, trust=trust)
        assert plain.asked == []


def _transport(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context, and that of a client which trusts it."""
    key, certificate = self_signed("files.example", SystemClock())
    (folder / "c").write_bytes(certificate)
    (folder / "k").write_bytes(key)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "c", folder / "k")
    trust = ssl.create_default_context(cafile=str(folder / "c"))
    trust.check_hostname = False
    return tls, trust


@pytest.mark.parametrize("reach", [0, 1])
async def test_redirects_lead_no_further_inside(reach: int) -> None:
    """A redirect from such a server to an address of this host: it is not even connected to."""
    async with web_server({"/x": answer(b"secret")}) as server:
        for host in ("127.0.0.1", "localhost"):
            url, content = check_url(server.url("/x").replace("127.0.0.1", host)), io.BytesIO()
            with pytest.raises(DownloadError, match="inside this network"):
                await _get(url, _Bounds(99, 30.0, reach), None, {}, _Sink(content))
        assert (server.connections, server.asked) == (0, [])
        answered, inside = await _get(url, _Bounds(99, 30.0, 2), None, {}, _Sink(content))
        assert (answered.status, inside) == (200, 2)


async def test_a_file_is_written_and_digested() -> None:
    content, seen = os.urandom(3 << 20), []
    async with web_server(
        {"/f": answer(content, 'ETag: "v1"', "Last-Modified: Tue, 01 Jan 2030 00:00:00 GMT")}
    ) as server:
        file = io.BytesIO()
        validators = Validators(etag='"v1"', last_modified="Tue, 01 Jan 2030 00:00:00 GMT")
        digest = hashlib.sha256(content).hexdigest()
        found = await fetch(
            server.url("/f"), file, limit=4 << 20, seconds=60, sha256=digest.upper(),
            progress=lambda *numbers: seen.append(numbers),
        )  # fmt: skip
        assert found == Fetched(len(content), digest, validators)
        assert file.getvalue() == content
        assert seen[-1] == (len(content), len(content))
        with pytest.raises(DownloadError, match=f"its SHA-256 is {digest}, not {'0' * 64}"):
            await fetch(server.url("/f"), io.BytesIO(), limit=4 << 20, seconds=LIMIT_SECONDS, sha256="0" * 64)


async def test_a_file_that_has_not_changed_is_not_sent_again() -> None:
    pages = {"/f": answer(b"", status="304 Not Modified"), "/moved": answer(b"", "Location: /f", status="302 Found")}
    async with web_server(pages) as server:
        file, known = io.BytesIO(), Validators(etag='"v\xe9"', last_modified="yesterday")
        for path in ("/f", "/moved"):
            assert await fetch(server.url(path), file, limit=9, seconds=LIMIT_SECONDS, known=known) is None
            assert server.heads[-1]["if-none-match"] == '"v\xe9"'
            assert server.heads[-1]["if-modified-since"] == "yesterday"
        with pytest.raises(DownloadError, match="status 304"):
            await fetch(server.url("/f"), file, limit=9, seconds=LIMIT_SECONDS)
        assert file.getvalue() == b""


async def test_the_content_of_a_redirect_is_not_kept() -> None:
    pages = {"/a": answer(b"x" * 100_000, "Location: /b", status="302 Found"), "/b": answer(b"there")}
    async with web_server(pages) as server:
        assert await download(server.url("/a"), limit=5, seconds=LIMIT_SECONDS) == b"there"


@pytest.fixture
def full_disk() -> Iterator[IO[bytes]]:
    with open("/dev/full", "wb", buffering=0) as file:
        yield file


async def test_a_file_that_cannot_be_written(full_disk: IO[bytes]) -> None:
    async with web_server({"/f": answer(b"x" * 10_000)}) as server:
        with pytest.raises(DownloadError, match="No space left"):
            await fetch(server.url("/f"), full_disk, limit=10_000, seconds=LIMIT_SECONDS)


async def test_a_server_that_never_ends_is_left() -> None:
    async with web_server({"/file": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"}) as server:
        server.slow.add("/file")
        with pytest.raises(DownloadError, match="not finished within"):
            await download(server.url("/file"), limit=10, seconds=0.2)


async def test_no_server() -> None:
    async with web_server({}) as server:
        url = server.url("/")
    with pytest.raises(DownloadError):
        await download(url, limit=10, seconds=LIMIT_SECONDS)


async def test_certificates_are_checked(tmp_path: Path) -> None:
    tls, trust = _transport(tmp_path)
    async with web_server({"/file": answer(b"safe")}, tls=tls) as server:
        assert await download(server.url("/file"), limit=10, seconds=LIMIT_SECONDS, trust=trust) == b"safe"
        with pytest.raises(DownloadError, match="certificate"):
            await download(server.url("/file"), limit=10, seconds=LIMIT_SECONDS)
