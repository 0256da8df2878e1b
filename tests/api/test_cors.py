"""Requests of other origins (conventions.md 10.2)."""

import httpx
import pytest

from secmon.config.api import Cors
from tests.api.conftest import Serve, Toy
from tests.api.toys import api_config

pytestmark = pytest.mark.anyio

HERE = "https://console.example"
OPEN = api_config(cors=Cors(enabled=True))
STRICT = api_config(
    cors=Cors(
        enabled=True, source_route=HERE, allow_headers="authorization, X-Token", expose_headers="X-A,X-B",
        allow_credentials=True,
    )
)  # fmt: skip


def cors_headers(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


async def preflight(toy: Toy, path: str = "/items", **headers: str) -> httpx.Response:
    return await toy.client.options(path, headers={name.replace("_", "-"): value for name, value in headers.items()})


async def test_off(toy: Toy) -> None:
    answer = await toy.client.get("/items", headers={"Origin": HERE})
    assert cors_headers(answer) == {}
    refused = await preflight(toy, Origin=HERE, Access_Control_Request_Method="GET")
    assert refused.status_code == 405
    assert cors_headers(refused) == {}


async def test_any_origin(serve: Serve) -> None:
    async with serve(OPEN) as toy:
        await toy.log_in()
        answer = await toy.client.get("/items", headers={"Origin": HERE})
        assert answer.headers["access-control-allow-origin"] == HERE
        assert "content-length" in answer.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in answer.headers
        assert cors_headers(await toy.client.get("/items")) == {}
        assert cors_headers(await toy.client.get("/nothing", headers={"Origin": HERE})) == {}
        failed = await toy.client.get("/items", headers={"Origin": HERE, "Authorization": "x"})
        assert (failed.status_code, failed.headers["access-control-allow-origin"]) == (401, HERE)


async def test_one_origin(serve: Serve) -> None:
    async with serve(STRICT) as toy:
        await toy.log_in()
        answer = await toy.client.get("/items", headers={"Origin": HERE})
        assert cors_headers(answer) == {
            "access-control-allow-origin": HERE,
            "access-control-allow-credentials": "true",
            "access-control-expose-headers": "X-A, X-B",
        }
        other = await toy.client.get("/items", headers={"Origin": "https://evil.example"})
        assert (other.status_code, cors_headers(other)) == (200, {})


async def test_preflight(serve: Serve) -> None:
    async with serve(STRICT) as toy:
        answer = await preflight(
            toy,
            Origin=HERE,
            Access_Control_Request_Method="PUT",
            Access_Control_Request_Headers="x-token,Authorization",
        )
        assert (answer.status_code, answer.content) == (200, b"")
        assert cors_headers(answer) == {
            "access-control-allow-origin": HERE,
            "access-control-allow-credentials": "true",
            "access-control-allow-methods": "PUT",
            "access-control-allow-headers": "X-TOKEN,AUTHORIZATION",
        }


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "origin header is not specified in the request"),
        ({"Origin": HERE}, "'Access-Control-Request-Method' header is not specified"),
        ({"Origin": "null", "Access_Control_Request_Method": "GET"}, "origin 'null' is not allowed"),
        (
            {"Origin": HERE, "Access_Control_Request_Method": "DELETE"},
            f"request method 'DELETE' is not allowed for '{HERE}' origin",
        ),
        (
            {
                "Origin": HERE,
                "Access_Control_Request_Method": "GET",
                "Access_Control_Request_Headers": "x-evil,x-token",
            },
            "headers are not allowed: X-EVIL",
        ),
    ],
)
async def test_refused_preflight(serve: Serve, headers: dict[str, str], reason: str) -> None:
    async with serve(STRICT) as toy:
        answer = await preflight(toy, **headers)
        assert answer.status_code == 403
        assert answer.json() == {"title": "Forbidden", "detail": f"CORS preflight request failed: {reason}"}


async def test_preflight_of_unknown_paths(serve: Serve) -> None:
    async with serve(OPEN) as toy:
        answer = await preflight(toy, "/nothing", Origin=HERE, Access_Control_Request_Method="GET")
        assert answer.status_code == 404
