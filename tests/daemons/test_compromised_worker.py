"""A worker in the hands of an attacker: its certificate and its session are good, its calls are made by hand."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sqlalchemy import select

from secmon.agents.names import MAX_ID
from secmon.agents.registry.schema import agents
from secmon.cluster.catalogue import CATALOGUE
from secmon.cluster.node import Node
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.rpc.gen import secmon_pb2_grpc as pb_grpc
from secmon.cluster.rpc.wire import ResultReader
from secmon.common.clock import SystemClock
from secmon.common.errors import SecmonError
from secmon.common.identity import Identity, local_identity
from secmon.common.outcome import Outcome, Result
from secmon.common.paths import Paths
from secmon.daemons.clusterd import ClusterDaemon
from secmon.daemons.master_role import MasterRole
from secmon.daemons.node_builder import open_node, read_installation
from secmon.security.authentication_error import AuthenticationError
from secmon.security.key_rotation import MAX_KEYS_OF_A_NODE, replace_signing_key
from secmon.security.revocation import revoke_all, revoke_user
from secmon.security.signing_keys import SigningKey, new_signing_key
from secmon.security.store import schema
from secmon.worker.cluster_member import ClusterMember
from secmon.worker.signing_key import REGISTER
from tests.cluster_kit import settings
from tests.folders import short_root
from tests.integration.kit import KEY, free_port, make_node
from tests.security.store.rows import put_user
from tests.waiting import LIMIT_SECONDS, until

pytestmark = pytest.mark.anyio

CREATE = "POST /security/users"
NEW_USER = {"body": {"username": "intruder", "password": "Quarry-7!lamp"}}
ADMIN = Identity(user="admin", user_id=1, roles=(1,), run_as=False, mode="white")

FORGED = {
    "the administrator": ADMIN,
    "a user that does not exist": msgspec.structs.replace(ADMIN, user="ghost", user_id=4711),
    "another id": msgspec.structs.replace(ADMIN, user_id=100),
    "roles of others": Identity(user="mira", user_id=900, roles=(1,), run_as=False, mode="white"),
    "black mode": Identity(user="mira", user_id=900, roles=(), run_as=False, mode="black"),
    "a context": msgspec.structs.replace(ADMIN, run_as=True, context_hash="0" * 32),
    "a revision to come": msgspec.structs.replace(ADMIN, revision=2**62),
    "local": local_identity(),
}


@dataclass
class Attack:
    """The master, and the worker ``rogue`` that has joined it."""

    master: Node
    rogue: ClusterMember

    async def execute(
        self, operation: str, params: dict[str, Any] | None = None, *, timeout: float | None = 20, **fields: Any
    ) -> Result:
        """What the master answers to a call of the rogue's making."""
        assert self.rogue.link.channel is not None
        fields = {"identity": ADMIN, "request_id": "r1", **fields}
        fields["identity"] = msgspec.msgpack.encode(fields["identity"])
        request = pb.ExecuteRequest(operation=operation, params=msgspec.msgpack.encode(params or {}), **fields)
        return await self.send(request, timeout=timeout)

    async def send(self, request: pb.ExecuteRequest, *, timeout: float | None = 20) -> Result:
        """What the master answers to ``request``."""
        assert self.rogue.link.channel is not None
        stub, reader = pb_grpc.PeerStub(self.rogue.link.channel), ResultReader()
        async for chunk in stub.Execute(request, timeout=timeout):
            reader.add(chunk.SerializeToString())
        return reader.result()

    async def refused(self, operation: str, params: dict[str, Any] | None = None, **fields: Any) -> int:
        """The code of the error that the master answers with."""
        with pytest.raises((SecmonError, AuthenticationError)) as caught:
            await self.execute(operation, params, **fields)
        error = caught.value
        return error.code if isinstance(error, SecmonError) else AuthenticationError.status

    def token(self, name: str) -> str:
        view = self.master.security.view()
        user = view.user(name)
        assert user is not None
        return self.master.tokens.issue(view, user)

    async def register(self, kid: str = "a" * 32, pem: str | None = None) -> SigningKey:
        """Have the master take a key of the rogue's."""
        made = new_signing_key(SystemClock())
        key = SigningKey(kid, "", pem or made.public_pem, made.created, None, made.private_pem)
        await self.execute(REGISTER.name, {"kid": key.kid, "public_pem": key.public_pem})
        return key

    def forged(self, key: SigningKey, name: str = "admin", **claims: Any) -> str:
        """A token of the rogue's making."""
        usual = jwt.decode(self.token(name), options={"verify_signature": False})
        return jwt.encode(usual | claims, key.private, algorithm="ES256", headers={"kid": key.kid})

    def users(self) -> set[str]:
        with self.master.security.read() as rows:
            return {row["username"] for row in rows.select(schema.users)}

    def audited(self) -> list[dict[str, Any]]:
        """Who has changed what since the installation."""
        if not self.master.paths.audit_log.exists():
            return []
        lines = map(json.loads, self.master.paths.audit_log.read_text().splitlines())
        return [line["by"] for line in lines if line["kind"] == "change" and line["by"]["operation"] == CREATE]


@asynccontextmanager
async def attacking(folder: Path) -> AsyncIterator[Attack]:
    port = free_port()
    options = {"clusterd.enrol_port": free_port(), "clusterd.ack_timeout_ms": 50}
    real = make_node(
        folder, "m", master="127.0.0.1", cluster_port=port, api_port=free_port(), role="master", options=options
    )
    node = open_node(read_installation(real.paths))
    with node.security.write() as tx:
        put_user(tx, 900, "mira")
    daemon = ClusterDaemon(node)
    await daemon.start()
    assert isinstance(daemon.role, MasterRole)
    cluster = daemon.role.cluster
    link = settings("rogue", key=KEY.encode(), port=cluster.port, enrol_port=cluster.enrol_port)
    rogue = ClusterMember(paths=Paths(folder / "rogue"), settings=link, clock=SystemClock())
    try:
        await rogue.start()
        assert await rogue.link.wait_connected(20)
        yield Attack(node, rogue)
    finally:
        await rogue.stop(grace=0)
        await daemon.stop()


@pytest.fixture
async def attack() -> AsyncIterator[Attack]:
    with tempfile.TemporaryDirectory(prefix="sm-", dir=short_root()) as folder:
        async with attacking(Path(folder)) as made:
            yield made


async def test_a_worker_cannot_name_a_caller(attack: Attack) -> None:
    weak = attack.token("mira")
    for what, identity in FORGED.items():
        assert await attack.refused(CREATE, NEW_USER, identity=identity) == 4000, what
        assert await attack.refused(CREATE, NEW_USER, identity=identity, token=weak) == 4000, what
        assert await attack.refused(CREATE, NEW_USER, identity=identity, token="a.b.c") == 401, what
    assert "intruder" not in attack.users()
    assert attack.audited() == []
    assert attack.master.counters.snapshot()["cluster.calls_refused"] >= 2 * len(FORGED)


async def test_the_token_says_who_asks_and_the_certificate_through_whom(attack: Attack) -> None:
    ghost = FORGED["a user that does not exist"]
    await attack.execute(CREATE, NEW_USER, identity=ghost, token=attack.token("admin"), client="198.51.100.7")
    [author] = attack.audited()
    assert author == {
        "user": "admin", "user_id": 1, "operation": CREATE, "client": "198.51.100.7", "request": "r1", "node": "rogue"
    }  # fmt: skip


async def test_a_revision_to_come_and_any_deadline_hold_nothing(attack: Attack) -> None:
    token, future = attack.token("admin"), FORGED["a revision to come"]
    for timeout in (None, 1e6, 1e9):
        async with asyncio.timeout(LIMIT_SECONDS):
            assert isinstance(
                await attack.execute("GET /cluster/nodes", identity=future, token=token, timeout=timeout), Outcome
            )


async def test_a_token_that_is_dead_at_the_master_is_dead(attack: Attack) -> None:
    token = attack.token("admin")
    with attack.master.security.write() as tx:
        revoke_user(tx, 1, attack.master.clock)
    assert await attack.refused(CREATE, NEW_USER, token=token) == 401


async def test_a_worker_asks_for_itself_only_what_nodes_may(attack: Attack) -> None:
    assert isinstance(await attack.execute("GET /cluster/healthcheck"), Outcome)
    token = attack.token("admin")
    for operation in ("PUT /internal/own-agents/restart", "GET /internal/own-agents/counters"):
        assert await attack.refused(operation, {"agents": [1]}) == 4000
        assert await attack.refused(operation, {"agents": [1]}, token=token) == 4000
    assert await attack.refused("DELETE /agents", {"agents_list": "all"}) == 4000
    assert await attack.refused("GET /nowhere") == 3009
    forged = {"user": "admin", "password": "Quarry-7!lamp"}
    assert await attack.refused("PUT /internal/password-hash", forged) == 401


@pytest.mark.parametrize(
    "fields",
    [
        {"request_id": "r\n2026/01/01 00:00:00 secmon-clusterd: INFO: forged"},
        {"request_id": "r" * 65},
        {"request_id": ""},
        {"client": "127.0.0.1\nforged"},
        {"client": "9" * 100_000},
        {"token": "x" * 100_000},
    ],
    ids=str,
)
async def test_log_lines_are_bounded(attack: Attack, fields: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    assert await attack.refused(CREATE, NEW_USER, **fields) in (3036, 401)
    assert await attack.refused("GET /\nforged", **fields) == 3036
    assert all(len(record.getMessage()) < 1000 and "\n" not in record.getMessage() for record in caplog.records)


async def test_nested_parameters_are_refused(attack: Attack) -> None:
    deep = b"\x81\xa1a" * 100_000 + b"\xc0"
    request = pb.ExecuteRequest(operation=CREATE, params=deep, identity=b"\x80", request_id="r1")
    with pytest.raises(SecmonError, match="3036"):
        await attack.send(request)
    await until(lambda: attack.rogue.link.connected.is_set())


async def test_tokens_name_the_worker_that_signed_them(attack: Attack, caplog: pytest.LogCaptureFixture) -> None:
    key = await attack.register()
    token = attack.forged(key)
    identity = attack.master.tokens.verify(attack.master.security.view(), token)
    assert (identity.user, identity.issuer) == ("admin", "rogue")
    await attack.execute(CREATE, NEW_USER, token=token)
    [author] = attack.audited()
    assert (author["user"], author["node"], author["issuer"]) == ("admin", "rogue", "rogue")
    assert "request r1 (from node rogue, token issued by node rogue): " in caplog.text
    for claims in ({"uid": 100}, {"sub": "ghost"}, {"rbac_mode": "black"}, {"exp": 2**40}, {"srev": 2**40}):
        assert await attack.refused(CREATE, NEW_USER, token=attack.forged(key, **claims)) == 401, claims
    assert await attack.refused(CREATE, NEW_USER, token=attack.forged(key, "mira", rbac_roles=[1])) == 401


async def test_a_worker_signs_with_no_key_but_its_own(attack: Attack) -> None:
    masters = attack.master.security.view().signing_key
    assert masters is not None
    made = new_signing_key(SystemClock())
    for kid in (masters.kid, "short", "g" * 32):
        with pytest.raises(SecmonError):
            await attack.register(kid)
    curve = ec.generate_private_key(ec.SECP384R1()).public_key()
    with pytest.raises(SecmonError):
        await attack.register(pem=curve.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode())
    with pytest.raises(SecmonError):
        await attack.register(pem="no key")
    assert await attack.refused(CREATE, NEW_USER, token=attack.forged(made)) == 401
    assert list(attack.master.security.view().keys) == [masters.kid]
    assert attack.master.security.view().keys[masters.kid].public_pem == masters.public_pem
    for number in range(MAX_KEYS_OF_A_NODE):
        await attack.register(f"{number:032x}")
    with pytest.raises(SecmonError, match="6003"):
        await attack.register("f" * 32)
    assert attack.master.security.view().signing_key == masters


async def test_the_master_signs_no_token_for_a_worker(attack: Attack) -> None:
    forged = attack.forged(await attack.register())
    logins = [operation.name for operation in CATALOGUE if operation.auth == "basic"]
    assert "POST /security/user/authenticate/run_as" in logins
    for login in logins:
        for token in (forged, attack.token("admin")):
            for params in ({}, {"raw": True}, {"body": {"name": None}}):
                assert await attack.refused(login, params, token=token) == 4000, login


async def test_the_end_of_all_tokens_is_the_end_of_a_workers_keys(attack: Attack) -> None:
    key = await attack.register()
    token = attack.forged(key)
    attack.master.tokens.verify(attack.master.security.view(), token)
    with attack.master.security.write() as tx:
        revoke_all(tx)
        replace_signing_key(tx, attack.master.clock)
    assert await attack.refused(CREATE, NEW_USER, token=token) == 401
    assert await attack.refused(CREATE, NEW_USER, token=attack.forged(key)) == 401


@pytest.mark.parametrize(
    "false",
    [
        {"name": "a\n002 b any 0123"},
        {"name": "a b"},
        {"name": "!a"},
        {"name": "a\x1b[31m"},
        {"name": "a\u202eb"},
        {"key": "k\x7f", "id": 5},
        {"name": ""},
        {"address": "10.0.0.1\nx"},
        {"address": "nowhere"},
        {"key_hash": "0" * 300},
        {"key": "k k", "id": 5},
        {"key": "k", "id": 2**60},
        {"key": "k", "id": 0},
    ],
    ids=str,
)
async def test_agents_are_added_in_the_form_of_the_key_file_only(attack: Attack, false: dict[str, Any]) -> None:
    fine: dict[str, Any] = {"name": "fine", "address": "any", "key_hash": "0" * 40}
    operation = "POST /internal/agents/keyed" if "id" in false else "POST /internal/agents"
    assert await attack.refused(operation, fine | false) == 3036
    await attack.execute("POST /internal/agents", fine)
    with attack.master.agents.read() as connection:
        assert connection.execute(select(agents.c.name)).scalars().all() == ["fine"]


async def test_the_highest_id_does_not_end_enrolment(attack: Attack) -> None:
    fine: dict[str, Any] = {"name": "fine", "address": "any", "key_hash": "0" * 40}
    await attack.execute("POST /internal/agents/keyed", fine | {"id": MAX_ID, "key": "k"})
    await attack.execute("POST /internal/agents", fine | {"name": "next"})
    with attack.master.agents.read() as connection:
        assert set(connection.execute(select(agents.c.id, agents.c.name))) == {(MAX_ID, "fine"), (1, "next")}
