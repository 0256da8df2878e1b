"""Downloads from real servers, good and bad."""

import ssl
from pathlib import Path

import pytest

from secmon.common.clock import SystemClock
from secmon.common.download import DownloadError, _Bounds, _get, _reach, check_url, download
from secmon.common.self_signed import self_signed
from tests.common.webserver import answer, web_server

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
        assert await download(server.url("/file"), limit=100, seconds=20) == content


async def test_the_query_is_sent() -> None:
    async with web_server({"/f?a=b&c": answer(b"x")}) as server:
        assert await download(server.url("/f?a=b&c"), limit=9, seconds=20) == b"x"


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
        assert await download(server.url("/a"), limit=9, seconds=20) == b"there"
        for path, text in (("/loop", "redirects"), ("/away", "http://"), ("/nowhere", "redirects")):
            with pytest.raises(DownloadError, match=text):
                await download(server.url(path), limit=9, seconds=20)


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
    ],
)
async def test_bad_answers(page: bytes, text: str) -> None:
    async with web_server({"/file": page}) as server:
        with pytest.raises(DownloadError, match=text):
            await download(server.url("/file"), limit=10, seconds=20)


async def test_trailers_without_end_are_refused() -> None:
    trailers = b"".join(b"X-%d: %b\r\n" % (number, b"a" * 1000) for number in range(200))
    page = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + trailers
    async with web_server({"/x": page}) as server:
        server.slow.add("/x")
        with pytest.raises(DownloadError, match="head of the answer is too long"):
            await download(server.url("/x"), limit=9, seconds=60)


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
                await download(server.url("/x"), limit=9, seconds=60, trust=trust)
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
    """What a redirect from such a server meets at an address of this host: a connection, and no request."""
    async with web_server({"/x": answer(b"secret")}) as server:
        with pytest.raises(DownloadError, match="inside this network"):
            await _get(check_url(server.url("/x")), _Bounds(99, 30.0, reach), None, {})
        assert server.asked == []
        assert (await _get(check_url(server.url("/x")), _Bounds(99, 30.0, 2), None, {})).content() == b"secret"


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("8.8.8.8", 0), ("2606:4700::1111", 0), ("10.1.2.3", 1), ("192.168.1.1", 1), ("fd00::1", 1), ("127.0.0.1", 2),
        ("::1", 2), ("169.254.169.254", 2), ("fe80::1%eth0", 2), ("::ffff:127.0.0.1", 2), ("::ffff:10.0.0.1", 1),
        ("0.0.0.0", 2),
    ],
)  # fmt: skip
def test_how_far_inside_an_address_is(address: str, reach: int) -> None:
    assert _reach(address) == reach


async def test_a_server_that_never_ends_is_left() -> None:
    async with web_server({"/file": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"}) as server:
        server.slow.add("/file")
        with pytest.raises(DownloadError, match="not finished within"):
            await download(server.url("/file"), limit=10, seconds=0.2)


async def test_no_server() -> None:
    async with web_server({}) as server:
        url = server.url("/")
    with pytest.raises(DownloadError):
        await download(url, limit=10, seconds=20)


@pytest.mark.parametrize(
    "url", ["", "file:///etc/passwd", "ftp://a/b", "http://", "//a/b", "http://a b", "http://u:p@a", "http://a:x/"]
)
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(DownloadError):
        check_url(url)


async def test_certificates_are_checked(tmp_path: Path) -> None:
    tls, trust = _transport(tmp_path)
    async with web_server({"/file": answer(b"safe")}, tls=tls) as server:
        assert await download(server.url("/file"), limit=10, seconds=20, trust=trust) == b"safe"
        with pytest.raises(DownloadError, match="certificate"):
            await download(server.url("/file"), limit=10, seconds=20)
