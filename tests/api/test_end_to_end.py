"""Login and first request over HTTPS, as a client does it."""

import asyncio

import msgspec
import pytest

from secmon.config.api import Https
from tests.api.conftest import LOGIN, Serve
from tests.api.toys import PASSWORD, USER, api_config

pytestmark = pytest.mark.anyio


async def test_login_and_request_over_https(serve: Serve) -> None:
    async with serve(api_config(https=Https())) as toy:
        login = await toy.client.post(LOGIN, auth=(USER, PASSWORD))
        assert login.status_code == 200
        assert list(login.json()) == ["data", "error"]
        token = login.json()["data"]["token"]

        answer = await toy.client.get("/", headers={"Authorization": f"Bearer {token}"})

        assert answer.status_code == 200
        assert answer.json() == {"data": {"title": "toy", "who": USER}, "error": 0}
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        ssl = toy.node.paths.ssl
        assert {file.name: file.stat().st_mode & 0o777 for file in ssl.iterdir()} == {
            "server.key": 0o400,
            "server.crt": 0o400,
        }
        assert '"GET /" with parameters {} and body {}' in toy.log()
        assert f'INFO: {USER} 127.0.0.1 "POST {LOGIN}"' in toy.log()


async def test_stop_finishes_what_is_in_flight(serve: Serve) -> None:
    async with serve() as toy:
        await toy.log_in()
        request = asyncio.create_task(toy.client.get("/wait"))
        await toy.latch.started.wait()
        stopping = asyncio.create_task(toy.server.stop(grace=10.0))
        await asyncio.sleep(0)
        toy.latch.released.set()
        answer = await request
        await stopping
        assert msgspec.json.decode(answer.content) == {"message": "done", "error": 0}
