"""Asking a real server on loopback for newer versions."""

import json
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from stat import S_IMODE
from uuid import UUID

import pytest

from secmon import __version__
from secmon.cluster.updates.check import (
    ID_HEADER,
    MAX_BYTES,
    UpdateService,
    UpdateSettings,
    installation_id,
    read_updates,
)
from secmon.common.clock import SystemClock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths
from secmon.common.self_signed import self_signed
from secmon.config.main import parse_main_config
from tests.cluster.updates.test_releases import GOOD, document
from tests.common.webserver import answer, web_server
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(tmp_path)
    paths.security.mkdir(parents=True)
    paths.newer_versions.parent.mkdir(parents=True)
    return paths


def updates(paths: Paths, url: str, trust: ssl.SSLContext | None = None) -> UpdateService:
    settings = UpdateSettings(enabled=True, url=url)
    return UpdateService(paths, settings, clock=ManualClock(), counters=Counters(), trust=trust)


async def refused(one: UpdateService, seconds: float = 20.0) -> str:
    with pytest.raises(SecmonError) as caught:
        await one.fetch(seconds)
    assert (caught.value.code, caught.value.kind.status) == (2100, 500)
    return caught.value.message


async def test_the_answer_is_kept(paths: Paths) -> None:
    async with web_server({"/r.json?key=1": answer(document(GOOD))}) as server:
        one = updates(paths, server.url("/r.json?key=1"))
        assert one.last() is None
        found = await one.fetch(20)
        assert [each.tag for each in found.releases] == ["v4.9.0"]
        assert found.asked_at == ManualClock().now()
        assert one.last() == found
        assert updates(paths, server.url("/elsewhere")).last() is None
        assert S_IMODE(paths.newer_versions.stat().st_mode) == 0o640


async def test_what_is_sent(paths: Paths) -> None:
    async with web_server({"/r": answer(document())}) as server:
        await updates(paths, server.url("/r")).fetch(20)
        (head,) = server.heads
        assert head == {
            "host": f"127.0.0.1:{server.port}",
            "user-agent": f"secmon/{__version__}",
            "accept": "*/*",
            "accept-encoding": "identity",
            "connection": "close",
            ID_HEADER: installation_id(paths),
        }


async def test_other_servers_do_not_get_the_id(paths: Paths) -> None:
    async with web_server({"/there": answer(document())}) as other:
        pages = {
            "/here": answer(b"", "Location: /on", status="302 Found"),
            "/on": answer(b"", f"Location: {other.url('/there')}", status="302 Found"),
        }
        async with web_server(pages) as server:
            await updates(paths, server.url("/here")).fetch(20)
            assert [ID_HEADER in head for head in server.heads] == [True, True]
        assert [ID_HEADER in head for head in other.heads] == [False]


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (answer(b"", status="503 Service Unavailable"), "status 503"),
        (answer(b"<html>"), "malformed"),
        (answer(b'{"releases": [{"tag": 1}]}'), "releases"),
        (answer(b"\xff\xfe"), "."),
        (answer(b'{"x": ' + b"[" * 100_000), "nested|recursion"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (MAX_BYTES + 1), "more than"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (MAX_BYTES + 1), "more than"),
        (b"SSH-2.0-x\r\n", "."),
        (b"", "."),
    ],
    ids=lambda one: ascii(one)[:24],
)
async def test_hostile_and_broken_services(paths: Paths, page: bytes, text: str) -> None:
    async with web_server({"/good": answer(document(GOOD)), "/r": page}) as server:
        url = server.url("/r")
        await updates(paths, server.url("/good")).fetch(20)
        before = paths.newer_versions.read_bytes()
        with pytest.raises(SecmonError, match=text) as caught:
            await updates(paths, url).fetch(20)
        assert caught.value.code == 2100
    assert paths.newer_versions.read_bytes() == before


async def test_services_that_are_not_there(paths: Paths) -> None:
    async with web_server({"/r": b"HTTP/1.1 200 OK\r\n"}) as server:
        server.slow.add("/r")
        assert "not finished within 0.2 s" in await refused(updates(paths, server.url("/r")), 0.2)
    await refused(updates(paths, server.url("/r")))
    one = updates(paths, "")
    assert "update_check_url is missing" in await refused(one)
    assert one.last() is None


async def test_failures_and_answers_are_counted(paths: Paths) -> None:
    counters = Counters()
    async with web_server({"/r": answer(document())}) as server:
        for path in ("/r", "/absent", "/r"):
            settings = UpdateSettings(enabled=True, url=server.url(path))
            one = UpdateService(paths, settings, clock=ManualClock(), counters=counters)
            if path == "/r":
                await one.fetch(20)
            else:
                await refused(one)
    assert counters.snapshot() == {"updates.asked": 2, "updates.failed": 1}


async def test_certificates_are_checked(paths: Paths, tmp_path: Path) -> None:
    key, certificate = self_signed("updates.example", SystemClock())
    (tmp_path / "c").write_bytes(certificate)
    (tmp_path / "k").write_bytes(key)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "c", tmp_path / "k")
    trust = ssl.create_default_context(cafile=str(tmp_path / "c"))
    trust.check_hostname = False
    async with web_server({"/r": answer(document(GOOD))}, tls=tls) as server:
        assert (await updates(paths, server.url("/r"), trust).fetch(20)).releases
        assert "certificate" in await refused(updates(paths, server.url("/r")))


def test_a_damaged_answer_counts_as_none(paths: Paths) -> None:
    one = updates(paths, "http://a")
    for data in (b"", b"{}", b"\xff", b"[" * 100_000, json.dumps({"url": "http://a", "asked_at": 1}).encode()):
        paths.newer_versions.write_bytes(data)
        assert one.last() is None


async def test_missing_folders_are_distinguished_from_the_service(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    with pytest.raises(SecmonError, match="configuration/security") as caught:
        installation_id(paths)
    assert caught.value.code == 1005
    paths.security.mkdir(parents=True)
    async with web_server({"/r": answer(document())}) as server:
        with pytest.raises(SecmonError, match="var/db") as caught:
            await updates(paths, server.url("/r")).fetch(20)
    assert caught.value.code == 1005
    paths.newer_versions.mkdir(parents=True)
    with pytest.raises(SecmonError, match="newer-versions") as caught:
        updates(paths, "http://a").last()
    assert caught.value.code == 1005


def test_the_id_is_made_once(paths: Paths) -> None:
    with ThreadPoolExecutor(16) as pool:
        (made,) = {*pool.map(installation_id, [paths] * 64)}
    assert UUID(made).version == 4
    assert installation_id(paths) == made
    assert S_IMODE(paths.installation_uid.stat().st_mode) == 0o660
    assert [one.name for one in paths.security.iterdir()] == ["installation_uid"]


@pytest.mark.parametrize("data", [b"", b"x", b"\xff" * 40, b"a\r\nb", b"0" * 100_000])
def test_an_id_that_is_none_is_not_sent(paths: Paths, data: bytes) -> None:
    paths.installation_uid.write_bytes(data)
    with pytest.raises(SecmonError, match="holds no id"):
        installation_id(paths)
    assert paths.installation_uid.read_bytes() == data


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", UpdateSettings()),
        ("<update_check>yes</update_check>", UpdateSettings(enabled=True)),
        ("<update_check_url> http://a/b </update_check_url>", UpdateSettings(url="http://a/b")),
        (
            "<update_check>yes</update_check><update_check_url>http://u:p@a</update_check_url>",
            UpdateSettings(enabled=True),
        ),
    ],
)
def test_settings(text: str, settings: UpdateSettings) -> None:
    assert read_updates(parse_main_config(f"<ossec_config><global>{text}</global></ossec_config>")) == settings
