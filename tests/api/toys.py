"""A small catalogue, a router that runs everything here, and a node in a folder: what the adapter needs of the rest."""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from secmon.cluster.call import Call
from secmon.cluster.catalogue import Catalogue, operation
from secmon.cluster.executor import Context, Executor
from secmon.cluster.node import Node, Services
from secmon.cluster.parameters import Common, Listing, Names, NoParams, Pretty, text_format
from secmon.cluster.slow_requests import SlowRequest
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.common.outcome import Messages, Outcome, Plain, Raw, Result
from secmon.common.paths import Paths
from secmon.common.query import Fields
from secmon.config.api import ApiConfig, Https
from secmon.config.main import parse_main_config
from secmon.config.options import InternalOptions
from secmon.security.origin import initialise
from secmon.security.rbac.authorization import Require
from secmon.security.store.security_store import SecurityStore
from tests.manual_clock import ManualClock

PASSWORD = "Sesame-Open-1"
USER = "admin"
Numbers = Annotated[str, text_format("numbers", r"[0-9]+")]


@dataclass
class ToyControl:
    """A supervisor whose daemons are in the states that the test sets."""

    states: dict[str, str] = field(default_factory=lambda: {"secmon-analysisd": "running"})

    async def restart(self) -> None:
        self.states = dict.fromkeys(self.states, "restarting")

    async def known_states(self) -> Mapping[str, str]:
        return self.states

    async def checked_states(self) -> Mapping[str, str]:
        return self.states

    async def counters(self, daemon: str) -> Mapping[str, Any]:
        return {}

    async def slow_requests(self, *, since: timedelta, limit: int) -> Sequence[SlowRequest]:
        return []

    async def supervisor_status(self) -> Mapping[str, Any]:
        return {"processes": [], "counters": {}, "task_restarts": {}, "process": {}}

    async def active_config(self, daemon: str, section: str) -> Mapping[str, Any]:
        raise SecmonError(1121, daemon)


@dataclass
class ToyLease:
    """A lease with the seconds that the test sets."""

    seconds: float = float("inf")
    refused: int | None = None

    def remaining(self) -> float:
        return self.seconds

    def refusal(self) -> int | None:
        return self.refused


@dataclass
class Latch:
    """What the operation ``GET /wait`` is waiting for, and what became of it."""

    started: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    calls: list[Call] = field(default_factory=list)


class LocalRouter:
    """Runs every call on this node."""

    def __init__(self, node: Node, catalogue: Catalogue) -> None:
        self._executor = Executor(node)
        self.calls: list[Call] = []

    async def route(self, call: Call) -> Result:
        self.calls.append(call)
        return await self._executor.run(call)


class Login(msgspec.Struct, frozen=True, kw_only=True):
    raw: bool = False


class Token(msgspec.Struct):
    """A token."""

    token: str


class RunAs(Login, frozen=True, kw_only=True):
    body: dict[str, Any]


class Item(msgspec.Struct):
    """An item of the toy collection."""

    id: int
    name: str


class Wanted(Listing, frozen=True, kw_only=True):
    ids: list[Numbers] | None = None
    status: Literal["on", "off"] | None = None
    name: Names | None = None


class OneItem(Common, frozen=True, kw_only=True):
    name: Names


class NewItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to make."""

    name: Names
    count: int = 1


class PutItem(Common, frozen=True, kw_only=True):
    body: NewItem


class Upload(OneItem, frozen=True, kw_only=True):
    overwrite: bool = False
    body: bytes = b""


class Failing(Common, frozen=True, kw_only=True):
    code: int
    node: str | None = None


ITEMS = [{"id": 1, "name": "alpha"}, {"id": 2, "name": "beta"}]
ITEM_FIELDS = Fields(engine="list", select=("id", "name"), sort=("id", "name"))


TOYS = Catalogue()
declare = partial(operation, catalogue=TOYS)


@declare("GET", "/", params=Pretty, open_to_all=True, exempt=True, data=dict[str, Any])
async def info(ctx: Context, params: Pretty) -> Plain:
    """What answers here."""
    return Plain(data={"title": "toy", "who": ctx.call.identity.user})


@declare("GET", "/security/user/authenticate", params=Login, auth="basic", deprecated="4.4", data=Token)
@declare("POST", "/security/user/authenticate", params=Login, auth="basic", data=Token, raw_type="text/plain")
@declare("POST", "/security/user/authenticate/run_as", params=RunAs, auth="basic", data=Token)
async def login(ctx: Context, params: Login) -> Result:
    """A token."""
    view = ctx.node.security.view()
    user = view.user(ctx.call.identity.user)
    assert user is not None
    token = ctx.node.tokens.issue(view, user, ctx.call.identity.roles)
    if params.raw:
        return Raw(body=token.encode(), content_type="text/plain; charset=utf-8")
    return Plain(data={"token": token})


@declare("DELETE", "/security/user/authenticate", params=NoParams)
async def logout(ctx: Context, params: NoParams) -> Plain:
    """Nothing much."""
    return Plain(message="Good bye")


@declare(
    "GET", "/items", params=Wanted, item=Item, fields=ITEM_FIELDS,
    messages=Messages(all="All read", some="Some read", none="None read"),
)  # fmt: skip
async def items(ctx: Context, params: Wanted) -> Outcome:
    """The collection."""
    found = [dict(one) for one in ITEMS if params.ids is None or str(one["id"]) in params.ids]
    outcome = Outcome(items=found)
    for unknown in set(params.ids or ()) - {"1", "2"}:
        outcome.fail(SecmonError(1730), unknown)
    return outcome


@declare("PUT", "/items", params=PutItem, item=str, messages=Messages(all="Made"))
async def make(ctx: Context, params: PutItem) -> Outcome:
    """Make an item."""
    return Outcome(items=[params.body.name] * params.body.count)


class Counted(Common, frozen=True, kw_only=True):
    start: int = 0


def count_on(params: Counted, answer: Outcome) -> Counted:
    return msgspec.structs.replace(params, start=int(answer.extra["position"]))


@declare("GET", "/count", params=Counted, item=dict[str, int], extra={"position": int}, follow=count_on)
async def count(ctx: Context, params: Counted) -> Outcome:
    """Two numbers at each repetition, up to six; below zero an error."""
    if params.start < 0:
        raise SecmonError(1730)
    numbers = range(params.start, min(params.start + 2, 6))
    return Outcome(items=[{"n": number} for number in numbers], extra={"position": params.start + len(numbers)})


@declare("POST", "/events", params=Common)
async def take_events(ctx: Context, params: Common) -> Plain:
    """A path that is counted by itself."""
    return Plain(message="taken")


@declare("GET", "/items/{name}", params=OneItem, item=str)
async def one_item(ctx: Context, params: OneItem) -> Outcome:
    """One item; its name."""
    return Outcome(items=[params.name])


@declare("GET", "/items/special", params=Common, item=str)
async def special(ctx: Context, params: Common) -> Outcome:
    """A fixed path beside one with a parameter."""
    return Outcome(items=["the special one"])


@declare("PUT", "/files/{name}", params=Upload,
    body_type="application/octet-stream", item=int)  # fmt: skip
async def upload(ctx: Context, params: Upload) -> Outcome:
    """Its length."""
    return Outcome(items=[len(params.body)])


@declare("GET", "/forbidden", params=Common, require=(Require("toy:read", "*:*"),))
async def forbidden(ctx: Context, params: Common) -> Plain:
    """No user has this permission."""
    return Plain(message="never")


@declare("GET", "/fail", params=Failing)
async def fail(ctx: Context, params: Failing) -> Plain:
    """Fails with a code; 0 is an unforeseen fault."""
    if params.code == 0:
        raise ZeroDivisionError("a secret detail")
    raise SecmonError(params.code, nodes={params.node: "over there"} if params.node else None)


@declare("GET", "/partial", params=Common, item=str, messages=Messages(all="All"))
async def partly(ctx: Context, params: Common) -> Outcome:
    """A node is missing."""
    return Outcome(items=["here"], node_errors={"there": "not connected"})


@declare("GET", "/toy-metrics", params=NoParams, auth="scraper", raw_type="text/plain",
    require=(Require("toy:read", "*:*"),))  # fmt: skip
async def toy_metrics(ctx: Context, params: NoParams) -> Raw:
    """For scrapers."""
    return Raw(body=ctx.call.identity.user.encode(), content_type="text/plain")


@declare("GET", "/cluster/toys", params=Common, needs_cluster=True)
async def needs_cluster(ctx: Context, params: Common) -> Plain:
    """Clusters only."""
    return Plain(message="never")


@declare("GET", "/experimental/toys", params=Common)
async def experimental(ctx: Context, params: Common) -> Plain:
    """Experiments only."""
    return Plain(message="tried")


def toy_catalogue(latch: Latch) -> Catalogue:
    """Operations that show each face of the adapter; ``GET /wait`` waits at ``latch``."""
    catalogue = Catalogue()
    for one in TOYS:
        catalogue.add(one)

    @operation("GET", "/wait", params=Common, catalogue=catalogue)
    async def wait(ctx: Context, params: Common) -> Plain:
        """Waits until the test lets it continue."""
        latch.calls.append(ctx.call)
        latch.started.set()
        try:
            await latch.released.wait()
        except asyncio.CancelledError:
            latch.cancelled.set()
            raise
        return Plain(message="done")

    return catalogue


def fill_store(path: Path) -> None:
    """A security store with the default contents."""
    store = SecurityStore(path)
    initialise(store, admin_password=PASSWORD, dashboard_password=PASSWORD, clock=ManualClock())
    store.close()


def toy_node(root: Path, config: ApiConfig, clock: Clock, filled_store: Path) -> Node:
    """A node without a cluster, with a copy of a filled store."""
    paths = Paths(root)
    for folder in (paths.security, paths.ssl, paths.logs, paths.run):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(filled_store, paths.security_db)
    store = SecurityStore(paths.security_db)
    return Node(
        paths=paths,
        api_config=config,
        main_config=parse_main_config("<ossec_config></ossec_config>"),
        options=InternalOptions.defaults(),
        security=store,
        services=Services(control=ToyControl(), lease=ToyLease()),
        clock=clock,
    )


def api_config(**changes: Any) -> ApiConfig:
    """Any free port of this host, and a rate that does not limit tests."""
    base = ApiConfig(host="127.0.0.1", port=0, https=Https(enabled=False))
    return msgspec.structs.replace(base, **changes)
