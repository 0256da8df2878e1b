"""Servers of the toy catalogue, on real sockets."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from secmon.api.protocol import ConnectionLimits
from secmon.api.server import ApiServer
from secmon.cluster.node import Node
from secmon.common.clock import Clock
from secmon.config.api import ApiConfig
from tests.api.toys import PASSWORD, USER, Latch, LocalRouter, api_config, fill_store, toy_catalogue, toy_node
from tests.manual_clock import ManualClock

LOGIN = "/security/user/authenticate"


@dataclass
class Toy:
    """A running server and a client for it."""

    server: ApiServer
    node: Node
    client: httpx.AsyncClient
    latch: Latch
    router: LocalRouter

    async def token(self) -> str:
        answer = await self.client.post(LOGIN, params={"raw": "true"}, auth=(USER, PASSWORD))
        assert answer.status_code == 200, answer.text
        return answer.text

    async def log_in(self) -> None:
        """All further requests of the client carry a token."""
        self.client.headers["Authorization"] = f"Bearer {await self.token()}"

    def counter(self, name: str) -> float:
        return self.node.counters.snapshot().get(name, 0)

    def log(self, name: str = "api.log") -> str:
        return (self.node.paths.logs / name).read_text()


Serve = Callable[..., AbstractAsyncContextManager[Toy]]


@pytest.fixture(scope="session")
def filled_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A security store as a new installation has it; tests get copies, since its passwords take time to hash."""
    path = tmp_path_factory.mktemp("store") / "security.db"
    fill_store(path)
    return path


@pytest.fixture
def serve(tmp_path: Path, filled_store: Path) -> Serve:
    """``async with serve(config, clock=..., limits=...) as toy``."""

    @asynccontextmanager
    async def running(
        config: ApiConfig | None = None,
        *,
        clock: Clock | None = None,
        limits: ConnectionLimits | None = None,
        **options: Any,
    ) -> AsyncIterator[Toy]:
        config = config or api_config()
        node = toy_node(tmp_path, config, clock or ManualClock(), filled_store)
        latch = Latch()
        catalogue = toy_catalogue(latch)
        router = LocalRouter(node, catalogue)
        server = ApiServer(node, router, catalogue, limits=limits or ConnectionLimits(), **options)
        server.bind()
        await server.start()
        scheme = "https" if config.https.enabled else "http"
        base = f"{scheme}://127.0.0.1:{server.port}"
        try:
            async with httpx.AsyncClient(base_url=base, verify=False) as client:
                yield Toy(server, node, client, latch, router)
        finally:
            await server.stop(grace=1.0)
            node.security.close()

    return running


@pytest.fixture
async def toy(serve: Serve) -> AsyncIterator[Toy]:
    """A server with the default configuration of the tests, and a logged-in client."""
    async with serve() as running:
        await running.log_in()
        yield running


def expect_problem(answer: httpx.Response, status: int, title: str, detail: str | None = None, **rest: Any) -> None:
    """A problem document with exactly this status and title, and members in order; None means absent."""
    body = answer.json()
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json; charset=utf-8"
    assert answer.text.endswith("}\n")
    assert body["title"] == title
    assert list(body) == [name for name in ("title", "detail", "remediation", "dapi_errors", "error") if name in body]
    if detail is not None:
        assert body["detail"] == detail
    for name, value in rest.items():
        assert body.get(name) == value
