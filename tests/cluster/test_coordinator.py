"""One call, many nodes: deadlines, cancellation, errors, and order over the union."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from secmon.cluster.call import Call
from secmon.cluster.catalogue import Catalogue, Place, operation
from secmon.cluster.executor import Context, read_query
from secmon.cluster.fan_out import CallLimits, fan_out
from secmon.cluster.node import Member, Peer
from secmon.cluster.parameters import Listing, Names
from secmon.common import query
from secmon.common.errors import Kind, SecmonError
from secmon.common.identity import local_identity, node_identity
from secmon.common.outcome import Messages, Outcome, Plain, Raw, Result, envelope
from secmon.common.query import Fields, Sort
from secmon.operations.permissions import on_nodes
from tests.operations.world import AnsweringPeer, Running, StuckPeer, World
from tests.waiting import until

pytestmark = pytest.mark.anyio

TEXTS = Messages(all="all", some="some", none="none")
ROCKS = Fields(engine="list", select=("id", "kind", "node"), sort=("id", "kind", "node"))
KINDS = ("basalt", "chalk", "flint")


class RocksQuery(Listing, frozen=True, kw_only=True):
    """Which rocks."""

    nodes_list: list[Names] | None = None


def make_catalogue() -> Catalogue:
    catalogue = Catalogue()

    @operation(
        "GET", "/rocks", params=RocksQuery, place=Place.NODES, node_param="nodes_list", require=(on_nodes("read"),),
        item=dict[str, Any], fields=ROCKS, default_sort=Sort(("id",)), messages=TEXTS, catalogue=catalogue,
    )  # fmt: skip
    async def rocks(ctx: Context, params: RocksQuery) -> Outcome:
        """Rocks found."""
        return Outcome(items=[])

    @operation(
        "GET", "/stones", params=RocksQuery, place=Place.NODES, node_param="nodes_list", require=(on_nodes("read"),),
        item=str, messages=TEXTS, catalogue=catalogue,
    )  # fmt: skip
    async def stones(ctx: Context, params: RocksQuery) -> Outcome:
        """Names of the nodes."""
        return Outcome(items=[ctx.node.name])

    return catalogue


STONES = make_catalogue()["GET /stones"]


@pytest.fixture
def world(tmp_path: Path, security_db: Path) -> Any:
    """The master alpha alone; nodes n0, n1, ... are added as peers."""
    world = World(tmp_path, security_db, catalogue=make_catalogue())
    world.start("alpha")
    yield world
    world.close()


def add(world: World, *peers: Peer) -> list[str]:
    names = [f"n{number}" for number in range(len(world.peers), len(world.peers) + len(peers))]
    for name, peer in zip(names, peers, strict=True):
        world.peers[name] = peer
        world.membership.connected.append(Member(name, "worker", "4.8.2", "10.9.0.9"))
    return names


def call(world: World, name: str = "GET /stones", seconds: float | None = None, **params: Any) -> tuple[Running, Call]:
    alpha = world.nodes["alpha"]
    made = world.call(name, "admin", params, on=alpha)
    deadline = None if seconds is None else world.clock.monotonic() + seconds
    return alpha, structs.replace(made, deadline=deadline)


async def run(world: World, name: str = "GET /stones", seconds: float | None = None, **params: Any) -> Outcome:
    alpha, made = call(world, name, seconds, **params)
    result = await alpha.router.route(made)
    assert isinstance(result, Outcome)
    return result


# Deadlines and cancellation


async def test_a_silent_node_does_not_delay_the_others(world: World) -> None:
    stuck, quick = StuckPeer(), AnsweringPeer(Outcome(items=["n1"]))
    add(world, stuck, quick)
    outcome = await run(world, seconds=0.2)
    assert outcome.items == ["alpha", "n1"]
    assert [(one.code, one.ids) for one in outcome.failures] == [(3021, ("n0",))]
    assert list(outcome.node_errors) == ["n0"]
    assert (stuck.asked, stuck.cancelled) == (1, 1)


async def test_peers_get_less_time_than_the_client_gave(world: World) -> None:
    peer = AnsweringPeer(Outcome(items=["n0"]))
    add(world, peer)
    await run(world, seconds=10)
    (received,) = peer.calls
    assert received.deadline is not None
    assert 9 < received.deadline - world.clock.monotonic() < 10


async def test_without_a_limit_there_is_no_deadline(world: World) -> None:
    peer = AnsweringPeer(Outcome(items=["n0"]))
    add(world, peer)
    await run(world)
    assert peer.calls[0].deadline is None


async def test_a_deadline_in_the_past_is_an_answer_too(world: World) -> None:
    add(world, StuckPeer())
    outcome = await run(world, seconds=-5, nodes_list=["n0"])
    assert [one.code for one in outcome.failures] == [3021]


async def test_a_client_that_leaves_cancels_every_part(world: World) -> None:
    peers = [StuckPeer() for _ in range(20)]
    add(world, *peers)
    alpha, made = call(world, seconds=60)
    task = asyncio.create_task(alpha.router.route(made))
    await until(lambda: all(peer.asked for peer in peers))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [peer.cancelled for peer in peers] == [1] * 20


async def test_calls_in_flight_are_bounded(world: World) -> None:
    running, most = 0, 0

    class Counting:
        async def execute(self, call: Call, *, part: bool) -> Outcome:
            nonlocal running, most
            running += 1
            most = max(most, running)
            for _ in range(3):
                await asyncio.sleep(0)
            running -= 1
            return Outcome(items=["x"])

    made = Call(operation=STONES, params=RocksQuery(), identity=local_identity(), request_id="r")
    peers = {f"n{number}": Counting() for number in range(30)}
    answers = await fan_out(made, peers, 0.0, limits=CallLimits(per_node=4, total=4))
    assert list(answers) == list(peers)
    assert most == 4


async def test_each_node_can_be_asked_for_something_else() -> None:
    class Echo:
        async def execute(self, call: Call, *, part: bool) -> Outcome:
            return Outcome(items=[call.params.limit])

    made = Call(operation=STONES, params=RocksQuery(), identity=local_identity(), request_id="r")
    wishes = {"n1": RocksQuery(limit=1), "n2": RocksQuery(limit=2)}
    answers = await fan_out(
        made, dict.fromkeys(wishes, Echo()), 0.0, limits=CallLimits(per_node=4, total=4), params=wishes
    )
    assert [one.items for one in answers.values() if isinstance(one, Outcome)] == [[1], [2]]


async def test_nodes_that_are_not_there_are_an_answer_too(world: World) -> None:
    master = next(iter(world.nodes.values())).node
    nodes = master.services.nodes
    assert nodes is not None
    made = Call(operation=STONES, params=RocksQuery(), identity=local_identity(), request_id="r")
    answers = await nodes.call_nodes(made, {master.name: RocksQuery(), "nowhere": RocksQuery()})
    own, other = answers[master.name], answers["nowhere"]
    assert isinstance(own, Outcome)
    assert own.items == [master.name]
    assert isinstance(other, SecmonError)
    assert other.code == 3022


async def test_the_authority_of_this_host_ends_here(world: World) -> None:
    """Workers refuse callers that are local to another host: what daemons of the master ask for is of the node."""
    master, peer = world.nodes["alpha"], AnsweringPeer(Plain())
    world.peers["beta"] = peer
    nodes = master.node.services.nodes
    assert nodes is not None
    made = Call(operation=STONES, params=RocksQuery(), identity=local_identity(), request_id="r")
    await nodes.call_nodes(made, {"beta": RocksQuery()})
    assert [one.identity for one in peer.calls] == [node_identity()]


async def test_waiting_for_ones_turn_counts_against_the_deadline() -> None:
    stuck = [StuckPeer(), StuckPeer()]
    made = Call(operation=STONES, params=RocksQuery(), identity=local_identity(), request_id="r", deadline=0.1)
    answers = await fan_out(made, {"a": stuck[0], "b": stuck[1]}, 0.0, limits=CallLimits(per_node=1, total=1))
    assert [one.code for one in answers.values() if isinstance(one, SecmonError)] == [3021, 3021]
    assert [one.asked for one in stuck] == [1, 0]


async def test_the_time_of_all_ends_at_once() -> None:
    """Asking the first holds up the loop, so that the second begins to wait later."""

    class Slow(StuckPeer):
        async def execute(self, call: Call, *, part: bool) -> Result:
            time.sleep(0.02)  # noqa: ASYNC251
            return await super().execute(call, part=part)

    first, second = Slow(), StuckPeer()
    made = Call(operation=STONES, params=RocksQuery(), identity=local_identity(), request_id="r", deadline=0.1)
    await fan_out(made, {"a": first, "b": second}, 0.0, limits=CallLimits(per_node=1, total=1))
    assert (first.asked, second.asked) == (1, 0), "the turn that the first gave back at the end is none"


async def test_a_node_that_hangs_leaves_the_others_their_turns(world: World) -> None:
    """Far more calls than a node may have in flight wait for it; healthy nodes answer, and it answers again later."""
    stuck, healthy = StuckPeer(), AnsweringPeer(Outcome(items=["n1"]))
    add(world, stuck, healthy)
    alpha, made = call(world, nodes_list=["n0"])
    hanging = [asyncio.create_task(alpha.router.route(made)) for _ in range(200)]
    await until(lambda: stuck.asked == 16)
    assert (await run(world, seconds=10, nodes_list=["alpha", "n1"])).items == ["alpha", "n1"]
    both = await run(world, seconds=0.2, nodes_list=["n0", "n1"])
    assert (both.items, [(one.code, one.ids) for one in both.failures]) == (["n1"], [(3021, ("n0",))])
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
    world.peers["n0"] = AnsweringPeer(Outcome(items=["n0"]))
    assert (await run(world, seconds=10, nodes_list=["n0"])).items == ["n0"]


async def test_calls_of_all_nodes_together_are_bounded() -> None:
    limits, entered = CallLimits(per_node=2, total=3), asyncio.Event()
    async with limits.slot("a"), limits.slot("a"), limits.slot("b"):

        async def enter() -> None:
            async with limits.slot("c"):
                entered.set()

        waiting = asyncio.create_task(enter())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not entered.is_set()
    await waiting
    assert entered.is_set()


# Errors


@pytest.mark.parametrize(
    ("error", "ids", "shown"),
    [
        (SecmonError(1908, "bad"), ("n0",), False),  # the user's: a failed item
        (SecmonError(1730, ids=("x", "y")), ("x", "y"), False),  # with ids: those items
        (SecmonError(1000), ("n0",), True),
        (SecmonError(1005, "disk"), ("n0",), True),
        (SecmonError(3022), ("n0",), True),
        (SecmonError(3018, nodes={"n0": "no route"}), ("n0",), True),
        (SecmonError(3043), ("n0",), True),
        (SecmonError(4000, "Resource type: node:id", ids=("n0",)), ("n0",), False),
    ],
    ids=lambda one: str(one.code) if isinstance(one, SecmonError) else "",
)
async def test_errors_of_a_node_cost_its_share(
    world: World, error: SecmonError, ids: tuple[str, ...], shown: bool
) -> None:
    add(world, AnsweringPeer(error), AnsweringPeer(Outcome(items=["n1"])))
    outcome = await run(world)
    assert outcome.items == ["alpha", "n1"]
    assert [(one.code, one.extra, one.ids) for one in outcome.failures] == [(error.code, error.extra, ids)]
    assert list(outcome.node_errors) == (["n0"] if shown else [])
    assert (error.kind in (Kind.INTERNAL, Kind.CLUSTER, Kind.UNAVAILABLE)) is shown
    body = envelope(outcome, TEXTS)
    assert (body["error"], body["message"]) == (2, "some")


async def test_errors_of_all_nodes_are_an_answer(world: World) -> None:
    names = add(world, *(AnsweringPeer(SecmonError(3022)) for _ in range(3)))
    body = envelope(await run(world, nodes_list=names), TEXTS)
    assert (body["error"], body["message"]) == (1, "none")
    assert [(one["error"]["code"], one["id"]) for one in body["data"]["failed_items"]] == [(3022, names)]
    assert list(body["dapi_errors"]) == names


async def test_partial_answers_of_nodes_are_kept(world: World) -> None:
    partial = Outcome(items=["n0"], notes=["careful"], node_errors={"n0": "half"})
    partial.fail(SecmonError(1908, "bad"), "x")
    add(world, AnsweringPeer(partial))
    outcome = await run(world, nodes_list=["n0"])
    assert outcome.items == ["n0"]
    assert [(one.code, one.ids) for one in outcome.failures] == [(1908, ("x",))]
    assert (outcome.notes, outcome.node_errors) == (["careful"], {"n0": "half"})


@pytest.mark.parametrize("answer", [Plain(message="?"), Raw(body=b"?", content_type="text/plain")])
async def test_an_answer_of_another_kind_is_no_answer(world: World, answer: Plain | Raw) -> None:
    add(world, AnsweringPeer(answer))
    outcome = await run(world, nodes_list=["n0"])
    assert [(one.code, one.ids) for one in outcome.failures] == [(3036, ("n0",))]


# Order over the union


def rock(number: int, nodes: int) -> dict[str, Any]:
    return {"id": number, "kind": KINDS[number * 7 % 3], "node": f"n{number * 13 % nodes}"}


def share_of(world: World, items: Sequence[dict[str, Any]], **params: Any) -> Outcome:
    """What a node answers that holds ``items``."""
    _, made = call(world, "GET /rocks", **params)
    part = query.part(items, read_query(made.params, ROCKS), ROCKS, made.operation.default_sort)
    return Outcome(items=list(part.items), total=part.total)


@pytest.mark.parametrize(
    ("params", "first", "total"),
    [
        ({"limit": 3}, [0, 1, 2], 100_000),
        ({"sort": "-id", "limit": 2}, [99_999, 99_998], 100_000),
        ({"offset": 70_000, "limit": 1}, [70_000], 100_000),
        ({"sort": "kind,id", "q": "kind=chalk", "limit": 2}, [1, 4], 33_333),
        ({"q": "id>99996", "limit": 500}, [99_997, 99_998, 99_999], 3),
    ],
)
async def test_a_hundred_thousand_items_of_ten_nodes_are_one_list(
    world: World, params: dict[str, Any], first: list[int], total: int
) -> None:
    by_node: dict[str, list[dict[str, Any]]] = {f"n{number}": [] for number in range(10)}
    for number in range(100_000):
        one = rock(number, 10)
        by_node[one["node"]].append(one)
    add(world, *(AnsweringPeer(share_of(world, items, **params)) for items in by_node.values()))
    outcome = await run(world, "GET /rocks", **params)
    assert [item["id"] for item in outcome.items] == first
    assert outcome.total == total


ITEMS = st.lists(st.fixed_dictionaries({"id": st.integers(0, 9), "kind": st.sampled_from(KINDS)}), max_size=12)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "sort": st.sampled_from(["id", "-id", "kind,id", "-kind"]),
        "offset": st.integers(0, 8),
        "limit": st.integers(1, 8),
        "q": st.sampled_from(["id>4", "kind=chalk", "kind!=flint;id<7"]),
        "search": st.sampled_from(["a", "-flint"]),
        "distinct": st.booleans(),
        "select": st.sampled_from([["kind"], ["id"], ["id", "kind"]]),
    },
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(held=st.lists(ITEMS, min_size=1, max_size=4), params=PARAMS)
def test_many_nodes_answer_as_one_that_holds_everything(
    world: World, held: list[list[dict[str, Any]]], params: dict[str, Any]
) -> None:
    world.peers.clear()
    del world.membership.connected[1:]
    names = add(world, *(AnsweringPeer(share_of(world, items, **params)) for items in held))
    several = asyncio.run(run(world, "GET /rocks", nodes_list=names, **params))
    _, made = call(world, "GET /rocks", **params)
    everything = [item for items in held for item in items]
    one = query.run(everything, read_query(made.params, ROCKS), ROCKS, made.operation.default_sort)
    assert (several.items, several.total) == (one.items, one.total)


async def test_other_nodes_are_not_sent_the_token_of_the_client() -> None:
    peer = AnsweringPeer(Plain())
    call = Call(
        operation=STONES,
        params=RocksQuery(),
        identity=local_identity(),
        request_id="r",
        token="header.payload.signature",
    )
    for deadline in (None, 1000.0):
        await fan_out(
            structs.replace(call, deadline=deadline), {"beta": peer}, 0.0, limits=CallLimits(per_node=1, total=1)
        )
    assert [one.token for one in peer.calls] == ["", ""]
    assert "signature" not in repr(call)
