"""The web console: its files, and what else a path below ``/console`` leads to."""

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from secmon.api import console
from secmon.operations.all import CATALOGUE
from tests.api.conftest import Serve, Toy, expect_problem

pytestmark = pytest.mark.anyio

PAGE, SCRIPT = b"<!doctype html><title>secmon</title>", b"const answer = 42;"


@pytest.fixture
async def built(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Toy]:
    """A server with a console of two files, and no client with a token."""
    folder = tmp_path / "static"
    folder.mkdir()
    (folder / "index.html.gz").write_bytes(gzip.compress(PAGE))
    (folder / "console-0123456789ab.js.gz").write_bytes(gzip.compress(SCRIPT))
    (folder / "notes.txt").write_text("not for the world")
    (tmp_path / "secret.html.gz").write_bytes(gzip.compress(b"not for the world"))
    monkeypatch.setattr(console, "FOLDER", folder)
    async with serve() as toy:
        yield toy


@pytest.mark.parametrize("path", ["/console", "/console/"])
async def test_the_page_needs_no_token_and_is_asked_for_each_time(built: Toy, path: str) -> None:
    answer = await built.client.get(path)
    assert (answer.status_code, answer.content) == (200, PAGE)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"


async def test_files_with_a_hash_in_their_name_are_kept_by_browsers(built: Toy) -> None:
    answer = await built.client.get("/console/console-0123456789ab.js")
    assert (answer.status_code, answer.content) == (200, SCRIPT)
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"


async def test_files_are_sent_as_they_were_compressed(built: Toy) -> None:
    compressed = await built.client.get("/console", headers={"Accept-Encoding": "br, gzip"})
    plain = await built.client.get("/console", headers={"Accept-Encoding": "identity"})
    assert compressed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert compressed.content == plain.content == PAGE
    assert compressed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"


async def test_head_sends_the_headers_only(built: Toy) -> None:
    answer = await built.client.head("/console", headers={"Accept-Encoding": "identity"})
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == str(len(PAGE))


async def test_the_policy_lets_nothing_in_from_elsewhere_nor_inline(built: Toy) -> None:
    policy = (await built.client.get("/console")).headers["content-security-policy"]
    sources = {words[0]: set(words[1:]) for words in (part.split() for part in policy.split(";"))}
    assert sources["default-src"] == {"'none'"}
    assert sources["script-src"] == sources["style-src"] == sources["connect-src"] == {"'self'"}
    assert sources["frame-ancestors"] == sources["base-uri"] == sources["form-action"] == {"'none'"}


@pytest.mark.parametrize(
    "path",
    [
        "/console/notes.txt",
        "/console/index.html",
        "/console/console-0123456789ab.js.gz",
        "/console/../secret.html",
        "/console/%2e%2e/secret.html",
        "/console/..%2fsecret.html",
        "/console//secret.html",
        "/console/%00",
    ],
)
async def test_nothing_but_the_files_of_the_console_is_served(built: Toy, path: str) -> None:
    answer = await raw_get(built, path)
    assert answer.status_code == 404
    assert b"not for the world" not in answer.content


async def raw_get(toy: Toy, path: str) -> httpx.Response:
    """GET of a path as it is: httpx would tidy it up."""
    url = toy.client.base_url.copy_with(raw_path=path.encode())
    return await toy.client.send(httpx.Request("GET", url))


async def test_the_console_is_only_read(built: Toy) -> None:
    expect_problem(await built.client.post("/console", json={}), 405, "Method Not Allowed")


async def test_neighbours_are_paths_of_the_api(built: Toy) -> None:
    expect_problem(await built.client.get("/consoles"), 404, "Not Found")


async def test_the_console_counts_for_itself(built: Toy) -> None:
    await built.client.get("/console")
    assert built.counter("api.console.requests") == 1
    assert built.counter("api.requests") == 0


async def test_without_a_console_the_server_says_how_to_get_it(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "FOLDER", tmp_path / "nothing")
    async with serve() as toy:
        answer = await toy.client.get("/console")
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert "make console" in answer.text
        await toy.log_in()
        assert (await toy.client.get("/")).status_code == 200


def test_no_operation_has_a_path_of_the_console() -> None:
    assert not [one.path for one in CATALOGUE if console.is_console(one.path)]
