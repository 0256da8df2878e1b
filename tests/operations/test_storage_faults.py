"""The answers when a disk is full or a store is damaged while the node runs."""

import logging
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from secmon.api.server import ApiServer
from secmon.cluster.catalogue import CATALOGUE
from tests.api.toys import LocalRouter, api_config
from tests.integration import namespaces
from tests.operations.world import PASSWORD, World
from tests.security.store.damage import damage_table

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(alone: World) -> AsyncIterator[httpx.AsyncClient]:
    node = alone.nodes["manager"].node
    node.api_config = api_config()
    server = ApiServer(node, LocalRouter(node, CATALOGUE), CATALOGUE)
    server.bind()
    await server.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
            answer = await client.post("/security/user/authenticate?raw=true", auth=("admin", PASSWORD))
            client.headers["Authorization"] = f"Bearer {answer.text}"
            yield client
    finally:
        await server.stop(grace=1.0)


def reported(answer: httpx.Response, code: int) -> dict[str, object]:
    """The problem document, checked."""
    assert answer.headers["content-type"].startswith("application/problem+json"), answer.text
    body = answer.json()
    assert (answer.status_code, body["error"]) == (500, code), answer.text
    assert body["remediation"]
    return dict(body)


async def test_a_damaged_store_is_reported_in_an_envelope(
    alone: World, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    paths = alone.nodes["manager"].node.paths
    damage_table(paths.security_db, "users")
    with caplog.at_level(logging.ERROR):
        login = await client.post("/security/user/authenticate", auth=("admin", PASSWORD))
        listed = await client.get("/security/users")
    for answer in (login, listed):
        assert "secmon config check" in str(reported(answer, 2013)["remediation"])
    assert "secmon config check" in caplog.text
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.root
@pytest.mark.skipif(not namespaces.usable(), reason="needs root to mount a small file system")
async def test_a_full_disk_is_reported(alone: World, client: httpx.AsyncClient) -> None:
    paths = alone.nodes["manager"].node.paths
    folder = paths.agents_db.parent
    alone.nodes["manager"].node.agents.close()
    with small_disk(folder):
        assert (await client.post("/agents", json={"name": "first"})).status_code == 200
        fill(folder / "fill")
        refused = await client.post("/agents", json={"name": "second"})
        body = reported(refused, 1021)
        assert "Free space" in str(body["remediation"])
        assert str(paths.agents_db) in str(body["detail"])
        (folder / "fill").unlink()
        assert (await client.post("/agents", json={"name": "second"})).status_code == 200
        alone.nodes["manager"].node.agents.close()


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """An empty file system of 1 MiB over ``folder``."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(path: Path) -> None:
    """Leave no byte on the file system of ``path``."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(512))
