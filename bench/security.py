"""Cost of permissions, tokens and logins; time of a revocation until no node accepts the token."""

import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from jwt.utils import base64url_decode

from bench.harness import Aim, Client, Figure, median_figure, request
from bench.nodes import Bench, say, token
from secmon.common.clock import SystemClock
from secmon.common.identity import Identity
from secmon.security.credentials import authenticate
from secmon.security.origin import initialise
from secmon.security.passwords import verify_password
from secmon.security.rbac.authorization import Authorizer, Require
from secmon.security.rbac.evaluate import flatten
from secmon.security.store import schema
from secmon.security.store.security_store import SecurityStore
from secmon.security.store.view import SecurityView
from secmon.security.tokens import Tokens
from tests.integration.kit import RealCluster, RealNode
from tests.waiting import wait_until

AGENTS = 100_000
GROUP = 1000
ROLES, POLICIES_OF_ROLE = 50, 4
EXPLICIT = 1000
WORKERS = 19
THREADS = 2
_PASSWORD = "Bench-Mark-1"
_FIRST = 1000
_READ = Require("agent:read", "agent:id", param="agents_list", mode="each")


class Agents:
    """An inventory of agents in groups of equal size."""

    def __init__(self) -> None:
        self.ids = [f"{number:03}" for number in range(AGENTS)]
        self._all = frozenset(self.ids)
        self._groups = {
            f"group{first // GROUP:03}": frozenset(self.ids[first : first + GROUP]) for first in range(0, AGENTS, GROUP)
        }

    def expand(self, kind: str, value: str) -> Set[str]:
        if kind == "agent:group":
            return self._groups.get(value, frozenset())
        return self._all if kind == "agent:id" else frozenset()


def measure(bench: Bench) -> list[Figure]:
    """First in this process, on a separate store; then on a cluster."""
    with _filled_store() as store:
        say(f"permissions of {ROLES} roles over {AGENTS} agents, tokens, logins")
        view = store.view()
        figures = [
            *_permissions(view, 5 if bench.quick else 50),
            *_tokens(view, 50 if bench.quick else 1000),
            _logins(store, rounds=2 if bench.quick else 7, seconds=0.5 if bench.quick else 1.0),
        ]
    return [*figures, *_revocation(bench, 2 if bench.quick else 15)]


@contextmanager
def _filled_store() -> Iterator[SecurityStore]:
    """The default contents, and 50 roles with 4 policies each: groups and single agents, allowed and denied."""
    folder = Path(tempfile.mkdtemp(prefix="sb-"))
    store = SecurityStore(folder / "security.db")
    try:
        initialise(store, admin_password=_PASSWORD, dashboard_password=_PASSWORD, clock=SystemClock())
        with store.write() as tx:
            for role in range(ROLES):
                tx.put(schema.roles, {"id": _FIRST + role, "name": f"role{role}", "created_at": 0})
                for position in range(POLICIES_OF_ROLE):
                    number = role * POLICIES_OF_ROLE + position
                    body = msgspec.json.encode(_policy(number)).decode()
                    row = {"id": _FIRST + number, "name": f"policy{number}", "policy": body, "created_at": 0}
                    tx.put(schema.policies, row)
                    link = {"role_id": _FIRST + role, "policy_id": _FIRST + number, "position": position}
                    tx.put(schema.role_policies, link)
        yield store
    finally:
        store.close()
        shutil.rmtree(folder)


def _policy(number: int) -> dict[str, object]:
    """Every second one allows two groups; the others deny or allow ten agents."""
    if number % 2 == 0:
        groups = (number // 2, (number // 2 + 37) % (AGENTS // GROUP))
        resources = [f"agent:group:group{group:03}" for group in groups]
    else:
        resources = [f"agent:id:{number // 2 * GROUP + member:03}" for member in range(10)]
    effect = "deny" if number % 4 == 3 else "allow"
    return {"actions": ["agent:read", "agent:restart"], "resources": resources, "effect": effect}


# Permissions


def _permissions(view: SecurityView, rounds: int) -> list[Figure]:
    roles = tuple(range(_FIRST, _FIRST + ROLES))
    identity = Identity(user="bench", user_id=1, roles=roles, run_as=False, mode="white", revision=view.revision)
    agents = Agents()
    policies = list(view.role_policies(roles))
    pairs = [(action, resource) for one in policies for action in one.actions for resource in one.resources]
    allowed = frozenset(_check(identity, view, agents, None, agents.ids))
    some = tuple(agents.ids[:: AGENTS // EXPLICIT])
    everything = frozenset(agents.ids)
    few, many = 20 * rounds, rounds
    return [
        _timed("permissions, flattened once", lambda: flatten(policies), few,
               lambda: dict.fromkeys(pairs), "a dict of the same pairs"),
        _timed("permissions, found again", lambda: view.permissions(roles), few * 10),
        _timed("check of one agent", lambda: _check(identity, view, agents, some[:1], ()), few,
               lambda: frozenset(some[:1]) & allowed, "set intersection"),
        _timed(f"check of {EXPLICIT} named agents", lambda: _check(identity, view, agents, some, ()), few,
               lambda: frozenset(some) & allowed, "set intersection"),
        _timed(f"those of {AGENTS} agents to be seen, {len(allowed)}",
               lambda: _check(identity, view, agents, None, agents.ids), many,
               lambda: everything & allowed, "set intersection"),
    ]  # fmt: skip


def _check(
    identity: Identity, view: SecurityView, agents: Agents, named: tuple[str, ...] | None, existing: Collection[str]
) -> list[str]:
    """The work of a request: authorization, one check, the ids to work on."""
    return Authorizer(identity, view, agents, node="bench").check(_READ, named).select(existing)


# Tokens


def _tokens(view: SecurityView, rounds: int) -> list[Figure]:
    clock = SystemClock()
    user = view.user("admin")
    assert user is not None
    issued = Tokens(clock).issue(view, user)
    familiar = Tokens(clock)
    fresh = [Tokens(clock) for _ in range(rounds + 1)]
    verify_alone = _signature_check(view, issued)
    return [
        _timed("token seen before", lambda: familiar.verify(view, issued), rounds * 5,
               verify_alone, "ECDSA alone", Aim(bound=1.0)),
        _timed("token seen first", lambda: fresh.pop().verify(view, issued), rounds, verify_alone, "ECDSA alone"),
    ]  # fmt: skip


def _signature_check(view: SecurityView, issued: str) -> Callable[[], object]:
    """The verification of the token's signature, with everything else done beforehand."""
    [key] = view.keys.values()
    signed, _, signature = issued.rpartition(".")
    raw = base64url_decode(signature)
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    return partial(key.public.verify, der, signed.encode(), ec.ECDSA(hashes.SHA256()))


# Logins


def _logins(store: SecurityStore, *, rounds: int, seconds: float) -> Figure:
    """Name and password to token, without HTTP."""
    tokens, view = Tokens(SystemClock()), store.view()
    admin = view.user("admin")
    assert admin is not None

    def login() -> None:
        now = store.view()
        tokens.issue(now, authenticate(now, "admin", _PASSWORD))

    floors, rates = [], []
    for _ in range(rounds):
        floors.append(_rate(lambda: verify_password(admin.password, _PASSWORD), seconds))
        rates.append(_rate(login, seconds))
    return median_figure(
        f"logins without HTTP, {THREADS} threads", rates, "logins/s",
        floor=statistics.median(floors), floor_is="Argon2id alone", aim=Aim(bound=0.9, least=True),
    )  # fmt: skip


def _rate(work: Callable[[], object], seconds: float) -> float:
    """How often ``work`` ends within a second, on two threads."""
    start = time.perf_counter()
    end = start + seconds

    def repeat() -> int:
        count = 0
        while time.perf_counter() < end:
            work()
            count += 1
        return count

    with ThreadPoolExecutor(THREADS) as pool:
        counts = [pool.submit(repeat) for _ in range(THREADS)]
        done = sum(count.result() for count in counts)
    return done / (time.perf_counter() - start)


# Revocation


def _revocation(bench: Bench, rounds: int) -> list[Figure]:
    """``PUT /security/user/revoke``: when it is answered, no node accepts an earlier token.

    It deletes the signing keys too, and each worker registers a new one: as many changes of the state as there are
    workers, each pushed to all. One revocation after the other would measure these of the one before.
    """
    cluster = bench.cluster(WORKERS)
    say(f"revocations on {len(cluster.nodes)} nodes")
    figures = []
    for label, node in (("master", cluster.master), ("worker", cluster.workers[-1])):
        taken: list[float] = []
        plain: list[float] = []
        renewed: list[float] = []
        for number in range(rounds + 1):
            revoked, floor = _revoked(bench, cluster, node)
            start = time.perf_counter()
            wait_until(partial(_all_have_all_keys, cluster), what="new signing keys known to all nodes")
            if number:
                taken.append(revoked)
                plain.append(floor)
                renewed.append((time.perf_counter() - start) * 1000)
        figures += [
            median_figure(
                f"revoked on {len(cluster.nodes)} nodes, asked at the {label}", taken, "ms",
                floor=statistics.median(plain), floor_is="a read on the master from there",
            ),
            median_figure("  then until all nodes know the new keys of all", renewed, "ms"),
        ]  # fmt: skip
    return figures


def _all_have_all_keys(cluster: RealCluster) -> bool:
    """Whether every node knows a valid signing key of each node."""
    known = {_valid_keys(node) for node in cluster.nodes}
    return len(known) == 1 and len(known.pop()) == len(cluster.nodes)


def _valid_keys(node: RealNode) -> frozenset[str]:
    """By SQL: a view of the whole state, 20 times for each look, would take cores from the nodes."""
    with closing(sqlite3.connect(f"file:{node.paths.security_db}?mode=ro", uri=True)) as store:
        return frozenset(kid for (kid,) in store.execute("SELECT kid FROM signing_keys WHERE retired_at IS NULL"))


def _revoked(bench: Bench, cluster: RealCluster, at: RealNode) -> tuple[float, float]:
    """Milliseconds until the answer, and those of a read that the master answers, on the same connection.

    ``RuntimeError`` for a node that did not accept the token before, or accepts it after an answer that does not name
    it as late.
    """
    headers = token(cluster, at)
    look, read = request("GET", "/", headers), request("GET", "/security/config", headers)
    with ExitStack() as stack:
        clients = {node.name: stack.enter_context(Client(node.api_port)) for node in cluster.nodes}
        _expect(clients, look, 200)
        client = clients[at.name]
        floor = statistics.median(client.timed(read) for _ in range(5))
        start = time.perf_counter()
        answer = client.ask(request("PUT", "/security/user/revoke", headers))
        taken = (time.perf_counter() - start) * 1000
        late = bench.unconfirmed(f"revocation asked at {at.name}", answer)
        _expect({name: client for name, client in clients.items() if name not in late}, look, 401)
    return taken, floor


def _expect(clients: dict[str, Client], message: bytes, status: int) -> None:
    for name, client in clients.items():
        found = client.ask(message).status
        if found != status:
            raise RuntimeError(f"{name} answered {found} where {status} was due")


def _timed(
    name: str,
    work: Callable[[], object],
    rounds: int,
    floor: Callable[[], object] | None = None,
    floor_is: str = "",
    aim: Aim | None = None,
) -> Figure:
    """Microseconds (``us``) of ``work`` and of its floor, in turns; the first turn warms up."""
    samples: dict[int, list[float]] = {0: [], 1: []}
    for number in range(rounds + 1):
        for which, function in enumerate((work, floor)):
            if function is not None:
                start = time.perf_counter()
                function()
                taken = (time.perf_counter() - start) * 1e6
                if number:
                    samples[which].append(taken)
    bound = statistics.median(samples[1]) if floor else None
    return median_figure(name, samples[0], "us", floor=bound, floor_is=floor_is, aim=aim)
