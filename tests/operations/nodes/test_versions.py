"""``GET /manager/version/check`` (manager.md 13.2), with a real server to ask."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from secmon.cluster.updates.check import installation_id
from secmon.common.clock import iso_micro
from secmon.common.errors import SecmonError
from secmon.config.main import load_main_config
from tests.cluster.updates.test_releases import GOOD, document
from tests.common.webserver import WebServer, answer, web_server
from tests.operations.world import World

pytestmark = pytest.mark.anyio

CHECK = "GET /manager/version/check"
TAGS = ("v4.8.1", "v4.8.2", "v4.8.3", "v4.9.0", "v5.0.0")
PAGE = answer(document(*(GOOD | {"tag": tag} for tag in TAGS)))


@pytest.fixture
async def server() -> AsyncIterator[WebServer]:
    async with web_server({"/r": PAGE}) as running:
        yield running


def configure(world: World, text: str, name: str = "manager") -> None:
    node = world.nodes[name].node
    kept = node.paths.main_config.read_text()
    node.paths.main_config.write_text(kept + f"<ossec_config><global>{text}</global></ossec_config>")
    node.main_config = load_main_config(node.paths)


def enable(world: World, url: str, name: str = "manager") -> None:
    configure(world, f"<update_check>yes</update_check><update_check_url>{url}</update_check_url>", name)


async def asked(world: World, user: str = "admin", /, **params: Any) -> Any:
    return (await world.body(CHECK, user, **params))["data"]


@pytest.mark.parametrize("force", [False, True])
async def test_no_request_is_sent_while_checks_are_off(alone: World, server: WebServer, force: bool) -> None:
    configure(alone, f"<update_check_url>{server.url('/r')}</update_check_url>")
    body = await alone.body(CHECK, force_query=force)
    assert body == {
        "data": {
            "uuid": installation_id(alone.nodes["manager"].node.paths),
            "last_check_date": "",
            "current_version": "v4.8.2",
            "update_check": False,
            "last_available_major": {},
            "last_available_minor": {},
            "last_available_patch": {},
        },
        "error": 0,
    }
    assert UUID(body["data"]["uuid"]).version == 4
    assert server.asked == []
    assert not alone.nodes["manager"].node.paths.newer_versions.exists()


async def test_what_was_found_last_is_hidden_while_checks_are_off(alone: World, server: WebServer) -> None:
    enable(alone, server.url("/r"))
    assert (await asked(alone, force_query=True))["last_available_major"]
    configure(alone, "<update_check>no</update_check>")
    found = await asked(alone)
    assert (found["update_check"], found["last_check_date"], found["last_available_major"]) == (False, "", {})


async def test_the_stored_answer_is_shown_until_a_client_asks(alone: World, server: WebServer) -> None:
    enable(alone, server.url("/r"))
    before = await asked(alone)
    assert (before["update_check"], before["last_check_date"], before["last_available_minor"]) == (True, "", {})
    assert server.asked == []
    assert await asked(alone, "nobody") == before  # any token will do
    for user in ("nobody", "reader"):
        with pytest.raises(SecmonError, match="4000"):
            await alone.run(CHECK, user, force_query=True)
    assert server.asked == []
    found = await asked(alone, "manager_only", force_query=True)
    assert found["last_check_date"] == iso_micro(alone.clock.now())
    assert found["last_available_minor"] == GOOD | {"semver": {"major": 4, "minor": 9, "patch": 0}}
    assert [found[f"last_available_{kind}"]["tag"] for kind in ("major", "minor", "patch")] == [
        "v5.0.0",
        "v4.9.0",
        "v4.8.3",
    ]
    alone.clock.advance(60)
    server.pages.clear()
    assert await asked(alone) == found
    assert server.asked == ["/r"]


async def test_a_failure_is_reported_and_the_stored_answer_is_kept(alone: World, server: WebServer) -> None:
    enable(alone, server.url("/r"))
    found = await asked(alone, force_query=True)
    server.pages["/r"] = answer(b"[]")
    with pytest.raises(SecmonError) as caught:
        await alone.run(CHECK, force_query=True)
    assert (caught.value.code, caught.value.kind.status) == (2100, 500)
    assert "object" in caught.value.message
    assert await asked(alone) == found


async def test_the_service_runs_out_of_time_before_the_request(alone: World, server: WebServer) -> None:
    enable(alone, server.url("/r"))
    server.pages["/r"] = b"HTTP/1.1 200 OK\r\n"
    server.slow.add("/r")
    running = alone.nodes["manager"]
    deadline = running.node.clock.monotonic() + 0.4  # of a clock that does not advance
    call = structs.replace(alone.call(CHECK, "admin", {"force_query": True}, on=running), deadline=deadline)
    with pytest.raises(SecmonError, match=r"not finished within 0\.2 s") as caught:
        await running.router.route(call)
    assert caught.value.code == 2100


async def test_workers_refuse(cluster: World, server: WebServer) -> None:
    for name in ("alpha", "beta"):
        enable(cluster, server.url("/r"), name)
    for at in ("beta", "gamma"):
        for force in (False, True):
            with pytest.raises(SecmonError) as caught:
                await cluster.run(CHECK, at=at, force_query=force)
            assert (caught.value.code, caught.value.kind.status) == (902, 404)
    assert server.asked == []
    assert not cluster.nodes["beta"].node.paths.installation_uid.exists()
    assert (await asked(cluster, at="alpha", force_query=True))["last_available_patch"]["tag"] == "v4.8.3"
