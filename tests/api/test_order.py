"""Limits, the order of the steps, and what is written down of them (conventions.md 0, 9, 12)."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from secmon.api.limits import EVENT_REQUESTS
from secmon.config.api import Access, Logs
from tests.api.conftest import LOGIN, Serve, Toy, expect_problem
from tests.api.toys import PASSWORD, USER, api_config
from tests.manual_clock import ManualClock
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def test_rate_limit(serve: Serve) -> None:
    clock = ManualClock()
    config = api_config(access=Access(max_request_per_minute=3))
    async with serve(config, clock=clock) as toy:
        await toy.log_in()
        for path in ("/", "/nothing", "/items"):
            assert (await toy.client.get(path)).status_code != 429
        answer = await toy.client.get("/")
        expect_problem(answer, 429, "Too Many Requests", error=6001, dapi_errors=None)
        assert answer.json()["remediation"]
        assert (await toy.client.get("/nothing")).status_code == 429  # before 404
        assert (await toy.client.put("/items", content=b"x" * 20_000_000)).status_code == 429  # before 413
        await toy.log_in()  # logins are neither counted nor refused
        clock.advance(60)
        assert (await toy.client.get("/")).status_code == 200
        assert toy.log().count(": 429") == 3


async def test_no_limit_of_requests(serve: Serve) -> None:
    async with serve(api_config(access=Access(max_request_per_minute=0))) as toy:
        await toy.log_in()
        for _ in range(EVENT_REQUESTS + 2):
            assert (await toy.client.post("/events")).status_code == 200
    async with serve(api_config(access=Access(max_request_per_minute=EVENT_REQUESTS + 10))) as toy:
        await toy.log_in()
        for _ in range(EVENT_REQUESTS):
            assert (await toy.client.post("/events")).status_code == 200
        expect_problem(await toy.client.post("/events"), 429, "Too Many Requests", error=6005)


async def test_login_block(serve: Serve) -> None:
    clock = ManualClock()
    config = api_config(access=Access(max_login_attempts=2, block_time=300))
    async with serve(config, clock=clock) as toy:
        await toy.log_in()
        assert (await toy.client.post(LOGIN, auth=(USER, "wrong"))).status_code == 401
        assert (await toy.client.get("/")).status_code == 200
        clock.advance(100)
        assert (await toy.client.get(LOGIN, auth=(USER, "wrong"))).status_code == 401
        refused = await toy.client.post(LOGIN, auth=(USER, PASSWORD))
        expect_problem(refused, 403, "Permission Denied", error=6000, dapi_errors=None)
        expect_problem(await toy.client.get("/"), 403, "Permission Denied", error=6000)
        assert (await toy.client.get("/nothing")).status_code == 403
        assert "WARNING: Request refused: too many failed logins from 127.0.0.1" in toy.log()
        clock.advance(199)
        assert (await toy.client.get("/")).status_code == 403
        clock.advance(1)
        assert (await toy.client.get("/")).status_code == 200


async def test_a_burst_of_logins_gets_no_more_attempts(serve: Serve) -> None:
    async with serve(api_config(access=Access(max_login_attempts=3))) as toy:
        answers = await asyncio.gather(*(toy.client.post(LOGIN, auth=(USER, "wrong")) for _ in range(12)))
        statuses = sorted(answer.status_code for answer in answers)
        tried = statuses.count(401)
        assert 3 <= tried <= 6  # what was being checked when the limit was reached
        assert statuses.count(403) == 12 - tried


async def test_only_failed_logins_count(serve: Serve) -> None:
    async with serve(api_config(access=Access(max_login_attempts=1))) as toy:
        for _ in range(3):
            assert (await toy.client.get("/")).status_code == 401
            assert (await toy.client.delete(LOGIN)).status_code == 401
            assert (await toy.client.put(LOGIN)).status_code == 405
        await toy.log_in()


async def test_forwarded_headers_do_not_change_the_address(serve: Serve) -> None:
    async with serve(api_config(access=Access(max_login_attempts=1))) as toy:
        spoofed = {"X-Forwarded-For": "10.9.8.7", "Forwarded": "for=10.9.8.7"}
        assert (await toy.client.post(LOGIN, auth=(USER, "wrong"), headers=spoofed)).status_code == 401
        assert (await toy.client.post(LOGIN, auth=(USER, PASSWORD))).status_code == 403
        assert "10.9.8.7" not in toy.log()


@pytest.mark.parametrize("chunked", [False, True])
async def test_body_limit(serve: Serve, chunked: bool) -> None:
    async with serve(api_config(max_upload_size=1000)) as toy:

        async def pieces(size: int) -> Any:
            for _ in range(size // 100):
                yield b"x" * 100

        async def put(size: int) -> httpx.Response:
            content = pieces(size) if chunked else b"x" * size
            return await toy.client.put("/files/x", content=content)

        refused = await put(1000)  # equal counts as too large; and before authentication
        expect_problem(refused, 413, "Request Entity Too Large", error=None)
        assert refused.json()["detail"] == "Maximum request body size 1000 exceeded, actual body size 1000"
        assert (await toy.client.put("/nothing", content=b"x" * 1000)).status_code == 413  # before 404
        assert (await put(900)).status_code == 401
        await toy.log_in()
        assert (await put(900)).json()["data"]["affected_items"] == [900]


async def test_no_body_limit(serve: Serve) -> None:
    async with serve(api_config(max_upload_size=0)) as toy:
        await toy.log_in()
        answer = await toy.client.put("/files/x", content=b"x" * 11_000_000)
        assert answer.json()["data"]["affected_items"] == [11_000_000]


async def test_log_lines(toy: Toy) -> None:
    await toy.client.get("/items?limit=1&limit=2&name=%C3%A9%ff")
    await toy.client.put("/items", json={"name": "x", "password": "secret"})
    await toy.client.post(LOGIN, auth=("ana", "wrong"))
    lines = toy.log().splitlines()[-3:]
    assert '"GET /items" with parameters {"limit": "1", "name": ' in lines[0]
    assert lines[0].endswith(": 400")
    assert '"password": "****"' in lines[1]
    assert f'INFO: ana 127.0.0.1 "POST {LOGIN}"' in lines[2]
    assert lines[2].endswith(": 401")


async def test_counters(toy: Toy) -> None:
    await toy.client.get("/nothing")
    await toy.client.get("/fail?code=1000")
    counters = toy.node.counters.snapshot()
    assert counters["api.requests"] == 3
    assert counters["api.responses.4xx"] == 1
    assert counters["api.responses.5xx"] == 1
    assert counters["api.requests.in_flight"] == 0


async def test_openapi_needs_a_token(toy: Toy) -> None:
    document = (await toy.client.get("/openapi.json")).json()
    assert document["openapi"] == "3.1.0"
    assert document["paths"]["/items/{name}"]["get"]["parameters"][0]["name"]
    expect_problem(await toy.client.post("/openapi.json"), 405, "Method Not Allowed")
    del toy.client.headers["Authorization"]
    assert (await toy.client.get("/openapi.json")).status_code == 401


async def test_large_bodies_of_strangers_are_not_parsed_for_the_log(serve: Serve) -> None:
    body = {"name": "x" * 70_000, "count": 1}
    async with serve() as toy:
        assert (await toy.client.put("/items", json=body)).status_code == 401
        await toy.log_in()
        assert (await toy.client.put("/items", json=body)).status_code == 200
        await until(lambda: toy.log().count("PUT /items") == 2)
        refused, done = [line for line in toy.log().splitlines() if "PUT /items" in line]
        assert 'and body {"truncated": ""} done' in refused
        assert 'and body {"truncated": "{' in done


@pytest.mark.parametrize("level", ["info", "debug", "debug2"])
async def test_no_secret_reaches_the_log(serve: Serve, level: str) -> None:
    config = api_config(logs=Logs(level=level, format="plain,json"))
    async with serve(config) as toy:
        await toy.log_in()
        secret = "Zx9-not-to-be-seen"
        whole = json.dumps({"name": "x", "a": [{"Password": secret}], "TOKEN": {"b": secret}})
        for body in (whole, whole[:-1], whole[:-30], f"[{whole}", f'{{"password": "{secret}', "null", f'"{secret}"'):
            for kind in ("application/json", "text/plain"):
                headers = {"Content-Type": kind, "X-Api-Key": secret, "Cookie": f"session={secret}"}
                await toy.client.put("/items", content=body, params={"PASSWORD": secret}, headers=headers)
                login = f"{LOGIN}/run_as"
                await toy.client.post(login, content=body, auth=(USER, PASSWORD), headers=headers)
                await toy.client.post(login, content=body, auth=(USER, secret), headers=headers)
        for path in (f"items%3Fpassword={secret}", f"items;token={secret}", f"x/https:%2F%2Fu:a@{secret}@h/"):
            await toy.client.get(f"/{path}")
        token = toy.client.headers["Authorization"].removeprefix("Bearer ")
        for name in ("api.log", "api.json"):
            text = toy.log(name)
            assert text.count("/items") >= 14
            assert not [line for line in text.splitlines() if secret in line or PASSWORD in line or token in line]
            assert ("Received headers" in text) is (level == "debug2")
