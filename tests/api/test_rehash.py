"""Outdated password hashes are replaced at login, on the master and through it; only the store changes."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from hashlib import pbkdf2_hmac
from pathlib import Path

import httpx
import pytest

from secmon.api.server import ApiServer
from secmon.cluster.call import Call
from secmon.cluster.node import CallRouter, Node
from secmon.common.errors import SecmonError
from secmon.common.outcome import Result
from secmon.operations.all import CATALOGUE, EXECUTABLE
from secmon.security.authentication_error import AuthenticationError
from secmon.security.passwords import MAX_TRIED_LENGTH, hash_password, needs_rehash, verify_password
from secmon.security.store import schema
from secmon.security.store.security_store import SecurityStore
from secmon.security.user_changes import replace_password
from tests.api.conftest import LOGIN
from tests.api.toys import api_config
from tests.operations.world import World, make_security_db
from tests.security.store.rows import put_user
from tests.waiting import until

pytestmark = pytest.mark.anyio

NAME, NUMBER, PASSWORD = "veteran", 900, "Quarry-7!lamp"
PBKDF2 = "pbkdf2:sha256:260000$k3Vt0pZqLm9RsXaY$c891267ca498cb968db0d293a46fe8c590098bc4e87408cc1674709c3cfce0f2"
UPGRADE = "PUT /internal/password-hash"


class Watched:
    """A router that does something before each upgrade, and notes how the upgrades ended."""

    def __init__(self, router: CallRouter) -> None:
        self._router = router
        self.before: Callable[[], Awaitable[object]] | None = None
        self.calls: list[Call] = []
        self.ended: list[int] = []

    async def route(self, call: Call) -> Result:
        if call.operation.name != UPGRADE:
            return await self._router.route(call)
        self.calls.append(call)
        try:
            if self.before is not None:
                await self.before()
            result = await self._router.route(call)
        except SecmonError as error:
            self.ended.append(error.code)
            raise
        except AuthenticationError as error:
            self.ended.append(error.status)
            raise
        self.ended.append(0)
        return result


@pytest.fixture(scope="module")
def old_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filled store with a user whose hash is of the older kind."""
    path = tmp_path_factory.mktemp("old") / "security.db"
    make_security_db(path)
    store = SecurityStore(path)
    with store.write() as tx:
        put_user(tx, NUMBER, NAME)
        row = tx.get(schema.users, NUMBER)
        assert row is not None
        tx.put(schema.users, row | {"password": PBKDF2})
    store.close()
    return path


@pytest.fixture
def world(tmp_path: Path, old_store: Path) -> Iterator[World]:
    """The master alpha and the worker beta."""
    world = World(tmp_path, old_store, catalogue=EXECUTABLE)
    for name in ("alpha", "beta"):
        world.start(name).node.api_config = api_config()
    yield world
    world.close()


@asynccontextmanager
async def served(world: World, name: str) -> AsyncIterator[tuple[httpx.AsyncClient, Watched]]:
    """The API of the node ``name``."""
    running = world.nodes[name]
    watched = Watched(running.router)
    server = ApiServer(running.node, watched, CATALOGUE)
    server.bind()
    await server.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
            yield client, watched
    finally:
        await server.stop(grace=1.0)


async def log_in(client: httpx.AsyncClient, password: str = PASSWORD) -> httpx.Response:
    return await client.post(LOGIN, params={"raw": "true"}, auth=(NAME, password))


async def whoami(client: httpx.AsyncClient, token: str) -> int:
    answer = await client.get("/security/users/me", headers={"Authorization": f"Bearer {token}"})
    return answer.status_code


def stored(node: Node) -> str:
    user = node.security.view().user(NAME)
    assert user is not None
    return user.password


@pytest.mark.parametrize("at", ["alpha", "beta"])
async def test_a_login_upgrades_the_hash_on_the_master(world: World, at: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    master = world.nodes["alpha"].node
    async with served(world, "alpha") as (at_master, _), served(world, at) as (client, watched):
        before = (await log_in(at_master)).text if at == "beta" else (await log_in(client)).text
        answer = await log_in(client)
        assert answer.status_code == 200
        await until(lambda: stored(master) != PBKDF2 and watched.ended)
        new = stored(master)
        assert not needs_rehash(new)
        assert verify_password(new, PASSWORD)
        assert [await whoami(at_master, token) for token in (before, answer.text)] == [200, 200]
        assert (await log_in(at_master)).status_code == 200
        assert stored(master) == new
    assert all(PASSWORD not in str(call) for call in watched.calls)
    lines = master.paths.audit_log.read_text()
    [line] = [line for line in map(json.loads, lines.splitlines()) if line["kind"] == "change"]
    assert (line["by"]["user"], line["by"]["operation"], line["by"]["client"]) == (NAME, UPGRADE, "127.0.0.1")
    assert [(one["table"], one["key"]) for one in line["changes"]] == [("users", [NUMBER])]
    written = [lines, caplog.text, *(file.read_text() for file in world.nodes[at].node.paths.logs.glob("*.log"))]
    assert not any(secret in text for text in written for secret in (PASSWORD, "pbkdf2:", "$argon2id"))


async def test_a_wrong_password_upgrades_nothing(world: World) -> None:
    async with served(world, "alpha") as (client, watched):
        assert (await log_in(client, PASSWORD + "x")).status_code == 401
        assert (await log_in(client)).status_code == 200
        await until(lambda: watched.ended)
    assert len(watched.calls) == 1
    assert verify_password(stored(world.nodes["alpha"].node), PASSWORD)


@pytest.mark.parametrize("at", ["alpha", "beta"])
async def test_a_password_changed_meanwhile_stays(world: World, at: str) -> None:
    master = world.nodes["alpha"].node
    chosen = hash_password("Other-8?stone")

    async def change() -> None:
        with master.security.write() as tx:
            replace_password(tx, NUMBER, chosen, master.clock)

    async with served(world, at) as (client, watched):
        watched.before = change
        await log_in(client)
        await until(lambda: watched.ended)
    assert watched.ended == [401]
    assert stored(master) == chosen
    assert not master.paths.audit_log.exists()


async def test_the_answer_does_not_wait_and_one_upgrade_of_a_user_runs_at_a_time(world: World) -> None:
    held = asyncio.Event()
    async with served(world, "alpha") as (client, watched):
        watched.before = held.wait
        for _ in range(3):
            assert (await log_in(client)).status_code == 200
        await until(lambda: watched.calls)
        assert stored(world.nodes["alpha"].node) == PBKDF2
        held.set()
        await until(lambda: watched.ended)
    assert len(watched.calls) == 1


async def test_without_the_master_the_next_login_tries_again(world: World) -> None:
    connected = list(world.membership.connected)
    async with served(world, "beta") as (client, watched):
        world.membership.connected.clear()
        assert (await log_in(client)).status_code == 200
        await until(lambda: watched.ended)
        world.membership.connected.extend(connected)
        assert (await log_in(client)).status_code == 200
        await until(lambda: len(watched.ended) == 2)
    assert watched.ended == [3023, 0]
    assert not needs_rehash(stored(world.nodes["alpha"].node))


async def test_a_stop_gives_up_what_has_not_been_done(world: World) -> None:
    async with served(world, "alpha") as (client, watched):
        watched.before = asyncio.Event().wait
        await log_in(client)
        await until(lambda: watched.calls)
    assert watched.ended == []
    assert stored(world.nodes["alpha"].node) == PBKDF2


async def test_clients_have_no_way_to_it(world: World) -> None:
    async with served(world, "alpha") as (client, watched):
        token = (await log_in(client)).text
        body = {"user": NAME, "password": PASSWORD}
        headers = {"Authorization": f"Bearer {token}"}
        assert (await client.put("/internal/password-hash", json=body, headers=headers)).status_code == 404
        await until(lambda: watched.ended)
    assert len(watched.calls) == 1
    assert not [one for one in CATALOGUE if one.path.startswith("/internal/")]


@pytest.mark.parametrize(("user", "password"), [(NAME, PASSWORD + "x"), (NAME, ""), (NAME, PBKDF2), ("x", PASSWORD)])
async def test_the_master_believes_the_password_only(world: World, user: str, password: str) -> None:
    with pytest.raises(AuthenticationError):
        await world.run(UPGRADE, NAME, at="beta", user=user, password=password)
    assert stored(world.nodes["alpha"].node) == PBKDF2


async def test_a_present_hash_is_not_replaced(world: World) -> None:
    master = world.nodes["alpha"].node
    current = hash_password(PASSWORD)
    with master.security.write() as tx:
        replace_password(tx, NUMBER, current, master.clock)
    await world.run(UPGRADE, NAME, user=NAME, password=PASSWORD)
    assert stored(master) == current


async def test_a_password_longer_than_new_hashes_cover_keeps_its_old_hash(world: World) -> None:
    password = "Quarry-7!" * (MAX_TRIED_LENGTH // 8)
    old = f"pbkdf2:sha256:1000$salt${pbkdf2_hmac('sha256', password.encode(), b'salt', 1000).hex()}"
    master = world.nodes["alpha"].node
    with master.security.write() as tx:
        replace_password(tx, NUMBER, old, master.clock)
    async with served(world, "alpha") as (client, watched):
        assert (await log_in(client, password)).status_code == 200
    assert watched.calls == []
    assert stored(master) == old
