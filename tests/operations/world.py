"""Several nodes in one process, in temporary folders, that reach each other through memory."""

import asyncio
import math
import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from secmon.cluster.call import Call, parameters_of
from secmon.cluster.catalogue import Catalogue
from secmon.cluster.coordinator import Coordinator, LocalPeer, UnreachablePeer
from secmon.cluster.executor import Executor
from secmon.cluster.fan_out import CallLimits
from secmon.cluster.node import Member, Node, Peer, Role, Services
from secmon.cluster.routing import RoleRouter
from secmon.cluster.rpc.call_service import CallService
from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.cluster.slow_requests import SlowRequest
from secmon.common.errors import SecmonError
from secmon.common.identity import Identity
from secmon.common.json_text import json_text
from secmon.common.outcome import Outcome, Plain, Raw, Result, envelope, envelope_text
from secmon.common.paths import Paths
from secmon.config.api import load_api_config
from secmon.config.cluster import ClusterSection
from secmon.config.main import load_main_config
from secmon.config.options import InternalOptions
from secmon.daemons.installation_files import create_installation_files
from secmon.operations.all import CATALOGUE, EXECUTABLE
from secmon.operations.metrics.node_metrics import NodeMetrics
from secmon.security.origin import initialise
from secmon.security.store import schema
from secmon.security.store.security_store import SecurityStore
from secmon.security.store.transaction import WriteTransaction
from secmon.worker.forwarding import MasterForwarder
from tests.manual_clock import ManualClock

PASSWORD = "Quarry-7!lamp"
KEY = "k" * 32

CALLERS: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "nobody": (),
    "manager_only": tuple(
        (f"manager:{action}", "*:*:*", "allow") for action in ("read", "update_config", "restart", "read_api_config")
    ),
    "cluster_only": tuple(
        (f"cluster:{action}", "node:id:*", "allow")
        for action in ("read", "update_config", "restart", "read_api_config")
    ),
    "reader": (("manager:read", "*:*:*", "allow"), ("cluster:read", "node:id:*", "allow")),
    "alpha_only": tuple(
        (f"cluster:{action}", f"node:id:{name}", effect)
        for action in ("read", "read_api_config", "restart", "update_config")
        for name, effect in (("*", "allow"), ("beta", "deny"))
    ),
}
"""Users besides the default ones, with their policies."""


@dataclass
class FixedControl:
    """A supervisor whose daemons are in the states given."""

    states: dict[str, str] = field(
        default_factory=lambda: dict.fromkeys(
            ("secmon-clusterd", "secmon-analysisd", "secmon-db", "secmon-remoted", "secmon-authd"), "running"
        )
    )
    restarts: int = 0
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Active configuration by daemon and section."""
    counted: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Counters by daemon."""
    slow: Sequence[SlowRequest] = ()
    """Requests that were slow."""

    async def restart(self) -> None:
        self.restarts += 1

    async def known_states(self) -> Mapping[str, str]:
        return self.states

    async def checked_states(self) -> Mapping[str, str]:
        return self.states

    async def active_config(self, daemon: str, section: str) -> Mapping[str, Any]:
        if daemon not in self.configs:
            raise SecmonError(1121, daemon)
        if section not in self.configs[daemon]:
            raise SecmonError(1116, section)
        return {section: self.configs[daemon][section]}

    async def slow_requests(self, *, since: timedelta, limit: int) -> Sequence[SlowRequest]:
        return self.slow[:limit]

    async def supervisor_status(self) -> Mapping[str, Any]:
        names = dict.fromkeys([*self.states, *self.counted])
        processes = [{"daemon": name, "pid": 1, "restarts": self.restarts, "hangs": 0} for name in names]
        figures = {
            "counters": {"log.rotation_errors": 2},
            "task_restarts": {"run files": 1},
            "process": {"open_fds": 5},
        }
        return {"processes": processes, **figures}

    async def counters(self, daemon: str) -> Mapping[str, Any]:
        if daemon not in self.counted:
            raise SecmonError(1121, daemon)
        return self.counted[daemon]


class OwnLease:
    """The lease of a node that needs none."""

    def remaining(self) -> float:
        return math.inf

    def refusal(self) -> None:
        return None


@dataclass
class FixedRoster:
    """A list of nodes."""

    connected: list[Member]
    gone: list[str] = field(default_factory=list)

    def members(self) -> Sequence[Member]:
        return self.connected

    def absent(self) -> Sequence[str]:
        return self.gone


@dataclass
class FixedHealth:
    """The health of the membership's nodes."""

    membership: FixedRoster

    def health(self) -> Sequence[Mapping[str, Any]]:
        entries: list[dict[str, Any]] = []
        for member in self.membership.connected:
            info = {"name": member.name, "type": member.type, "version": member.version, "ip": member.ip}
            entries.append({"info": info} if member.type == "master" else {"info": info, "status": {}})
        return entries


@dataclass
class FixedDigests:
    """Content hashes that do not change by themselves."""

    found: dict[str, str] = field(default_factory=lambda: {"etc/rules/local.xml": "00"})

    async def hashes(self, folders: Sequence[str]) -> Mapping[str, str]:
        return {path: digest for path, digest in self.found.items() if path.startswith(tuple(folders))}


@dataclass
class Acknowledged:
    """A publisher whose nodes confirm at once, but for some."""

    unconfirmed: list[str] = field(default_factory=list)
    revisions: list[int] = field(default_factory=list)

    async def confirmed(self, revision: int) -> Sequence[str]:
        self.revisions.append(revision)
        return self.unconfirmed


def make_security_db(path: Path) -> None:
    """The default contents and :data:`CALLERS`."""
    store = SecurityStore(path)
    initialise(store, admin_password=PASSWORD, dashboard_password=PASSWORD, clock=ManualClock())
    with store.write() as tx:
        for name, statements in CALLERS.items():
            _put_caller(tx, name, statements)
    store.close()


def _put_caller(tx: WriteTransaction, name: str, statements: Sequence[tuple[str, str, str]]) -> None:
    user, role = tx.next_id(schema.users), tx.next_id(schema.roles)
    row = {"id": user, "username": name, "password": "x", "allow_run_as": False, "created_at": 0}
    tx.put(schema.users, row)
    tx.put(schema.roles, {"id": role, "name": name, "created_at": 0})
    tx.put(schema.user_roles, {"user_id": user, "role_id": role, "position": 0})
    for position, (action, resource, effect) in enumerate(statements):
        policy = tx.next_id(schema.policies)
        # An action of its own makes the body unique, as the table wants it.
        body = f'{{"actions":["{action}","own:p{policy}"],"resources":["{resource}"],"effect":"{effect}"}}'
        tx.put(schema.policies, {"id": policy, "name": f"policy{policy}", "policy": body, "created_at": 0})
        tx.put(schema.role_policies, {"role_id": role, "policy_id": policy, "position": position})


def _lay_out(paths: Paths, known: Path, cluster: ClusterSection | None, api: Mapping[str, object] | None) -> None:
    """An installation as the product makes it: made once below ``known``, then copied, without its durable writes."""
    made = known / blake2b(msgspec.json.encode([cluster, api]), digest_size=16).hexdigest()
    if not made.exists():
        create_installation_files(Paths(made), cluster=cluster, api_overrides=api)
    shutil.copytree(made, paths.root)


@dataclass
class Running:
    """One node and how it runs calls."""

    node: Node
    control: FixedControl
    digests: FixedDigests
    acknowledged: Acknowledged
    executor: Executor
    router: RoleRouter


class World:
    """The nodes by name. Without a cluster there is one, called ``manager``."""

    def __init__(self, folder: Path, security_db: Path, *, catalogue: Catalogue = CATALOGUE) -> None:
        self._folder = folder
        self._security_db = security_db
        self._catalogue = catalogue
        self.clock = ManualClock()
        self.membership = FixedRoster([])
        self.nodes: dict[str, Running] = {}
        self.peers: dict[str, Peer] = {}
        """Other ways to reach a node than directly."""

    def start(
        self, name: str = "manager", *, api: Mapping[str, object] | None = None, clustered: bool = True
    ) -> Running:
        """Install and build a node; the first of a cluster is its master."""
        kind: Role = "worker" if self.nodes else "master"
        cluster = None
        if clustered:
            cluster = ClusterSection(
                name="eu", node_name=name, node_type=kind, key=KEY, nodes=["10.9.0.1"], bind_addr="127.0.0.1"
            )
            self.membership.connected.append(Member(name, kind, "4.8.2", f"10.9.0.{len(self.nodes) + 1}"))
        paths = Paths(self._folder / name)
        _lay_out(paths, self._security_db.with_name("layouts"), cluster, api)
        running = self._build(paths, kind, clustered)
        self.nodes[running.node.name] = running
        return running

    def _build(self, paths: Paths, kind: Role, clustered: bool) -> Running:
        shutil.copy(self._security_db, paths.security_db)
        control, digests, acknowledged = FixedControl(), FixedDigests(), Acknowledged()
        services = Services(control=control, lease=OwnLease())
        if clustered:
            services.membership, services.digests = self.membership, digests
            if kind == "master":
                services.health, services.acknowledgements = FixedHealth(self.membership), acknowledged
        node = Node(
            paths=paths,
            api_config=load_api_config(paths),
            main_config=load_main_config(paths),
            options=InternalOptions.defaults(),
            security=SecurityStore(paths.security_db, writable=kind == "master"),
            services=services,
            clock=self.clock,
        )
        services.metrics = NodeMetrics(node)
        executor = Executor(node)
        node.services.nodes = coordinator = Coordinator(executor, self._find_peer, limits=CallLimits.of(node.options))
        forwarder = MasterForwarder(node, partial(self._find_master, node.name), hold_seconds=0.05)
        router = RoleRouter(kind, executor, coordinator=coordinator, forward_to=forwarder)
        return Running(node, control, digests, acknowledged, executor, router)

    def _find_peer(self, name: str) -> Peer:
        if name in self.peers:
            return self.peers[name]
        return LocalPeer(self.nodes[name].executor) if name in self.nodes else UnreachablePeer(name)

    async def _find_master(self, worker: str, hold: float) -> "WholePeer | None":
        master = next(iter(self.nodes.values()))
        return (
            WholePeer(master, worker) if master.node.name in [one.name for one in self.membership.connected] else None
        )

    def close(self) -> None:
        for one in self.nodes.values():
            one.node.security.close()
            one.node.agents.close()
            one.node.tasks.close()
            one.node.inventory.close()

    def call(self, operation: str, user: str, params: Mapping[str, Any], *, on: Running) -> Call:
        """The call of ``user`` as ``on`` would receive it."""
        view = on.node.security.view()
        found = view.user(user)
        assert found is not None, user
        identity = Identity(
            user=user,
            user_id=found.id,
            roles=found.roles,
            run_as=False,
            mode=view.settings.rbac_mode,
            revision=view.revision,
        )
        found_operation = self._catalogue[operation]
        built = parameters_of(found_operation, dict(params), on.node.name)
        return Call(operation=found_operation, params=built, identity=identity, request_id="r1")

    async def run(self, operation: str, user: str = "admin", /, *, at: str = "", **params: Any) -> Result:
        """Route the call at the node ``at``, by default the master."""
        running = self.nodes[at] if at else next(iter(self.nodes.values()))
        return await running.router.route(self.call(operation, user, params, on=running))

    async def text(self, operation: str, user: str = "admin", /, *, at: str = "", **params: Any) -> Outcome:
        """As :meth:`run`, with items as text: as the API routes a call (``Call.text``)."""
        running = self.nodes[at] if at else next(iter(self.nodes.values()))
        call = self.call(operation, user, params, on=running)
        result = await running.router.route(structs.replace(call, text=True))
        assert isinstance(result, Outcome)
        return result

    async def outcome(self, operation: str, user: str = "admin", /, **options: Any) -> Outcome:
        result = await self.run(operation, user, **options)
        assert isinstance(result, Outcome)
        return result

    async def plain(self, operation: str, user: str = "admin", /, **options: Any) -> Plain:
        result = await self.run(operation, user, **options)
        assert isinstance(result, Plain)
        return result

    async def raw(self, operation: str, user: str = "admin", /, **options: Any) -> Raw:
        result = await self.run(operation, user, **options)
        assert isinstance(result, Raw)
        return result

    async def body(self, name: str, user: str = "admin", /, **options: Any) -> dict[str, Any]:
        """The envelope that the client gets."""
        result = await self.run(name, user, **options)
        assert not isinstance(result, Raw)
        return envelope(result, self._catalogue[name].messages)

    async def same_as_text(self, name: str, user: str = "admin", /, **options: Any) -> dict[str, Any]:
        """As :meth:`body`, which is neither text nor remembered: both give the same."""
        body, messages = await self.body(name, user, **options), self._catalogue[name].messages
        for _ in range(2):
            text = await self.text(name, user, **options)
            shown = envelope_text(text, envelope(text, messages), pretty=False)
            assert msgspec.json.decode(shown) == msgspec.json.decode(json_text(body))
        return body


class WholePeer:
    """The master as a worker sees it, but for ``secmon.master.callers``, which finds out who asks."""

    def __init__(self, master: Running, worker: str) -> None:
        self._master, self._worker = master, worker

    async def execute(self, call: Call, *, part: bool) -> Result:
        call = structs.replace(call, node=self._worker)
        return await (self._master.executor.run_part if part else self._master.router.route)(call)

    def relay(self, request: pb.ExecuteRequest, deadline: float | None) -> AsyncGenerator[bytes, None]:
        """See ``worker.forwarding.Master``."""
        service = CallService(
            self._master.node.name, EXECUTABLE, whole=self._master.router.route, part=self._master.executor.run_part
        )
        return service.answer(request, deadline, lambda call: structs.replace(call, node=self._worker))


class StuckPeer:
    """A node that never answers; counts what was asked of it and what was cancelled."""

    def __init__(self) -> None:
        self.asked = 0
        self.cancelled = 0

    async def execute(self, call: Call, *, part: bool) -> Result:
        self.asked += 1
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        raise AssertionError("unreachable")


class ObservedPeer:
    """Passes calls on; counts the answers."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.answered = 0

    async def execute(self, call: Call, *, part: bool) -> Result:
        result = await self._peer.execute(call, part=part)
        self.answered += 1
        return result


class AnsweringPeer:
    """A node that answers every call alike, with a result or an error."""

    def __init__(self, answer: Result | Exception) -> None:
        self._answer = answer
        self.calls: list[Call] = []

    async def execute(self, call: Call, *, part: bool) -> Result:
        self.calls.append(call)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer
