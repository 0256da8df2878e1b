"""Login with an authorization context: from the HTTP request to what the token can do."""

import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from secmon.api.server import ApiServer
from secmon.cluster.call import Call
from secmon.cluster.catalogue import CATALOGUE
from secmon.cluster.executor import Context, Executor
from secmon.cluster.node import Node, Services
from secmon.common.errors import SecmonError
from secmon.common.identity import Identity
from secmon.common.outcome import Plain
from secmon.common.paths import Paths
from secmon.config.main import parse_main_config
from secmon.config.options import InternalOptions
from secmon.operations.security.login import RunAs
from secmon.security.authentication_error import AuthenticationError
from secmon.security.credentials import context_hash
from secmon.security.origin import initialise
from secmon.security.passwords import hash_password
from secmon.security.revocation import revoke_run_as
from secmon.security.store import schema
from secmon.security.store.security_store import SecurityStore
from tests.api.toys import LocalRouter, ToyControl, ToyLease, api_config
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio

PATH = "/security/user/authenticate/run_as"
PASSWORD = "Quarry-7!lamp"
OPS = {"name": "mira", "auth": {"teams": ["ops", "blue"]}}


@dataclass
class Server:
    node: Node
    client: httpx.AsyncClient

    async def login(self, context: object, *, user: str = "mira", **options: Any) -> httpx.Response:
        content = context if isinstance(context, str) else json.dumps(context)
        return await self.client.post(PATH, content=content, auth=(user, PASSWORD), **options)

    async def identity(self, context: object, *, user: str = "mira") -> Identity:
        """Who the token of a successful login is."""
        answer = await self.login(context, user=user)
        assert answer.status_code == 200, answer.text
        assert list(answer.json()) == ["data", "error"]
        return self.node.tokens.verify(self.node.security.view(), answer.json()["data"]["token"])

    def log(self) -> str:
        return (self.node.paths.logs / "api.log").read_text()


def _fill(store: SecurityStore) -> None:
    """Users ``mira`` (run_as) and ``leo`` (not), both with role 100; rules 100 and 101 for roles 101 and 102."""
    initialise(store, admin_password=PASSWORD, dashboard_password=PASSWORD, clock=ManualClock())
    password = hash_password(PASSWORD)
    with store.write() as tx:
        for number, name in ((100, "mira"), (101, "leo")):
            row = {"id": number, "username": name, "password": password}
            tx.put(schema.users, row | {"allow_run_as": name == "mira", "created_at": 0})
        for number in (100, 101, 102):
            tx.put(schema.roles, {"id": number, "name": f"role{number}", "created_at": 0})
            if number < 102:
                tx.put(schema.user_roles, {"user_id": number, "role_id": 100, "position": 0})
        for number, team in ((100, "ops"), (101, "blue")):
            rule = json.dumps({"FIND": {"teams": [team]}})
            tx.put(schema.rules, {"id": number, "name": team, "rule": rule, "created_at": 0})
            tx.put(schema.role_rules, {"role_id": number + 1, "rule_id": number})


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed database, filled once: hashing passwords takes its time."""
    path = tmp_path_factory.mktemp("filled") / "security.db"
    store = SecurityStore(path)
    _fill(store)
    store.close()
    return path


@pytest.fixture
async def server(filled: Path, tmp_path: Path) -> AsyncIterator[Server]:
    paths = Paths(tmp_path)
    for folder in (paths.security, paths.logs, paths.run):
        folder.mkdir(parents=True)
    shutil.copy(filled, paths.security_db)
    node = Node(
        paths=paths,
        api_config=api_config(),
        main_config=parse_main_config("<ossec_config></ossec_config>"),
        options=InternalOptions.defaults(),
        security=SecurityStore(paths.security_db),
        services=Services(control=ToyControl(), lease=ToyLease()),
        clock=ManualClock(),
    )
    running = ApiServer(node, LocalRouter(node, CATALOGUE), CATALOGUE)
    running.bind()
    await running.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{running.port}") as client:
            yield Server(node, client)
    finally:
        await running.stop(grace=1.0)
        node.security.close()


async def test_roles_come_from_the_rules_that_hold(server: Server) -> None:
    found = await server.identity(OPS)
    assert (found.user, found.user_id, found.roles, found.run_as) == ("mira", 100, (101, 102), True)
    assert found.context_hash == context_hash(OPS)
    assert (await server.identity({"teams": ["blue"]})).roles == (102,)


async def test_no_true_rule_gives_no_role(server: Server) -> None:
    assert (await server.identity({"teams": ["red"]})).roles == ()


@pytest.mark.parametrize("context", ["{}", '{"name": null}'])
@pytest.mark.parametrize("user", ["mira", "leo"])
async def test_a_context_without_members_gives_the_own_roles(server: Server, context: str, user: str) -> None:
    found = await server.identity(context, user=user)
    assert (found.roles, found.run_as, found.context_hash) == ((100,), True, context_hash(context))


async def test_without_the_flag_a_context_is_refused(server: Server) -> None:
    answer = await server.login({"name": "leo"}, user="leo")
    assert answer.status_code == 403
    body = answer.json()
    assert (body["error"], list(body["dapi_errors"])) == (6004, ["unknown-node"])
    assert (await server.login({"name": {}}, user="leo")).status_code == 403


@pytest.mark.parametrize(("user", "roles"), [("dashboard", (1,)), ("admin", ())])
async def test_default_rules_are_for_the_dashboard_user(server: Server, user: str, roles: tuple[int, ...]) -> None:
    assert (await server.identity({"acct": {"username": "elastic"}}, user=user)).roles == roles


@pytest.mark.parametrize("body", ["", "null", "[]", "1", '"x"', "{", '{"a": 1} x', '{"a":' * 3000 + "1" + "}" * 3000])
async def test_a_body_that_is_not_an_object(server: Server, body: str) -> None:
    assert (await server.login(body)).status_code == 400
    assert (await server.client.post(PATH, content=body, auth=("mira", "wrong"))).status_code == 401


async def test_raw_answer_under_any_content_type(server: Server) -> None:
    answer = await server.login(OPS, params={"raw": "true"}, headers={"Content-Type": "text/plain"})
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert server.node.tokens.verify(server.node.security.view(), answer.text).roles == (101, 102)


async def test_the_log_carries_the_hash(server: Server) -> None:
    await server.login(OPS)
    assert f'mira ({context_hash(OPS)}) 127.0.0.1 "POST {PATH}"' in server.log()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", "2afb9b83f9314e5d029766197f539792"),
        ('{"username": "elastic"}', "7e3bd7c5ea0e07beb34e9dbef70eae6d"),
        ('{"name":"Initech","auth":{"team":["blue","red"],"level":3}}', "f73b3f38acc6fb61978b96054ebcbe42"),
        ('{"name": "Zoë", "auth": {"a": true, "b": null}}', "3fdab35034c0594959dde128a1aa4011"),
        ('{"name": "mira", "auth": {"site": "41"}}', "debceb3b464b69657d046eaa17e43d91"),
    ],
)
async def test_hashes_of_the_reference(server: Server, text: str, expected: str) -> None:
    assert (await server.identity(text)).context_hash == expected


async def test_a_huge_context_delays_no_other_caller(server: Server) -> None:
    hostile = {"teams": ["ops"], "k": [{"teams": ["x"] * 20} for _ in range(3_000)]}
    assert (await server.identity(hostile)).roles == ()


async def test_a_revocation_during_the_login_ends_its_token(server: Server) -> None:
    """Credentials are checked, then a rule changes, then the token is issued: it must lead nowhere."""
    node = server.node
    before = node.security.view()
    identity = Identity("mira", 100, (100,), run_as=False, mode="white", revision=before.revision)
    with node.security.write() as tx:
        revoke_run_as(tx, node.clock)
    call = Call(operation=CATALOGUE[f"POST {PATH}"], params=RunAs(body=OPS), identity=identity, request_id="1")
    result = await Executor(node).run(call)
    assert isinstance(result, Plain)
    with pytest.raises(AuthenticationError):
        node.tokens.verify(node.security.view(), result.data["token"])


async def test_a_context_too_deep_to_be_hashed_is_refused(server: Server) -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    identity = Identity("mira", 100, (100,), run_as=False, mode="white")
    call = Call(operation=CATALOGUE[f"POST {PATH}"], params=RunAs(body=deep), identity=identity, request_id="1")
    with pytest.raises(SecmonError) as error:
        await call.operation.function(Context(server.node, call), call.params)
    assert error.value.code == 1018
