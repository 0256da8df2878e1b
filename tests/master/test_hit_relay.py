"""Hits of rules on their way through the master: a node that hangs, floods or lies costs its own only."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.cluster.call import Call
from secmon.cluster.node import Member
from secmon.cluster.rule_hits import MAX_HITS, Counted, Firing, Hit, Hits
from secmon.common.background import cancel
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.outcome import Plain, Result
from secmon.master.hit_relay import MESSAGES_A_SECOND, HitRelay
from secmon.operations.rule_hits import HitsOfOthers
from tests.manual_clock import ManualClock
from tests.operations.world import FixedRoster

pytestmark = pytest.mark.anyio

COUNTED = Counted(100331, b"12345678", (b"192.0.2.1",))
HIT = Hit(0, 1, 100330, 1_700_000_000_000, "001", 1, (COUNTED,))
ONE = Hits(hits=[HIT])
FULL = Hits(hits=[HIT] * MAX_HITS)


class Nodes:
    """Nodes that answer, except those that hang until they are let go, or fail."""

    def __init__(self) -> None:
        self.got: dict[str, list[HitsOfOthers]] = {}
        self.hanging: dict[str, asyncio.Event] = {}
        self.failing: set[str] = set()

    async def call_nodes(self, call: Call, params: Mapping[str, Any]) -> Mapping[str, Result | SecmonError]:
        ((name, message),) = params.items()
        if name in self.hanging:
            await self.hanging[name].wait()
        if name in self.failing:
            return {name: SecmonError(3022, ids=(name,))}
        self.got.setdefault(name, []).append(message)
        return {name: Plain()}


class Stage:
    """A master ``m`` with the workers ``a`` and ``b``, whose clocks are ten seconds ahead and five behind."""

    def __init__(self) -> None:
        self.nodes, self.counters, self.clock = Nodes(), Counters(), ManualClock()
        members = [Member("m", "master", "4.8.2", "1"), *(Member(name, "worker", "4.8.2", "1") for name in "ab")]
        ahead = {"m": 0, "a": 10, "b": -5}
        membership = FixedRoster(members)
        self.relay = HitRelay(self.nodes, membership, ahead.__getitem__, clock=self.clock, counters=self.counters)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Stage"]:
        task = asyncio.create_task(self.relay.run())
        try:
            yield self
        finally:
            await cancel(task)

    async def settled(self) -> None:
        """Until everything that can be done now is done."""
        for _ in range(50):
            await asyncio.sleep(0)

    def count(self, name: str) -> int:
        return int(self.counters.snapshot().get(f"hits.{name}", 0))


async def test_all_other_nodes_get_them_with_their_sender_and_times() -> None:
    async with Stage().running() as stage:
        stage.relay.offer("a", ONE)
        await stage.settled()
        found = {
            name: [(one.node, one.ahead, one.hits) for one in got[0].senders] for name, got in stage.nodes.got.items()
        }
        assert found == {"m": [("a", -10, [HIT])], "b": [("a", -15, [HIT])]}
        assert stage.count("relayed") == 2


async def test_a_node_that_hangs_delays_its_own_only() -> None:
    stage = Stage()
    free = stage.nodes.hanging["b"] = asyncio.Event()
    async with stage.running():
        for _ in range(3):
            stage.relay.offer("a", ONE)
            await stage.settled()
        assert [len(one.senders[0].hits) for one in stage.nodes.got["m"]] == [1, 1, 1]
        assert "b" not in stage.nodes.got
        free.set()
        await stage.settled()
        assert [len(one.senders[0].hits) for one in stage.nodes.got["b"]] == [1, 2], "the next message has the rest"


async def test_a_node_that_fails_is_counted_and_nothing_else() -> None:
    stage = Stage()
    stage.nodes.failing.add("b")
    async with stage.running():
        stage.relay.offer("a", Hits(hits=[HIT], firings=[Firing(0, 1, 1, 1, 1, COUNTED)]))
        await stage.settled()
        assert (stage.count("undelivered"), stage.count("relayed")) == (2, 2)


async def test_a_flood_fills_its_own_share_and_is_bounded() -> None:
    stage = Stage()
    stage.nodes.hanging["b"] = free = asyncio.Event()
    async with stage.running():
        stage.relay.offer("m", ONE)
        await stage.settled()  # on its way to b
        for _ in range(MESSAGES_A_SECOND + 30):
            stage.relay.offer("a", FULL)
        stage.relay.offer("m", ONE)
        free.set()
        await stage.settled()
        last = {one.node: len(one.hits) for one in stage.nodes.got["b"][-1].senders}
        assert last == {"a": MAX_HITS, "m": 1}
        assert stage.count("refused") == 30 * MAX_HITS
        assert stage.count("dropped") > 0
        stage.clock.advance(1)
        stage.relay.offer("a", ONE)
        await stage.settled()
        assert stage.count("refused") == 30 * MAX_HITS, "the next second is another one"


HOSTILE = st.recursive(
    st.none() | st.integers(-(2**63), 2**63) | st.binary(max_size=60) | st.text(max_size=20) | st.booleans(),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=20,
)


@given(st.lists(HOSTILE, min_size=1, max_size=3), st.sampled_from(["hits", "firings"]))
async def test_only_values_of_the_right_types_and_sizes_come_through(values: list[Any], name: str) -> None:
    with pytest.raises((msgspec.ValidationError, msgspec.DecodeError)):
        msgspec.msgpack.decode(msgspec.msgpack.encode({name: values}), type=Hits)


@pytest.mark.parametrize(
    "wrong",
    [
        {"hits": [HIT] * (MAX_HITS + 1)},
        {"hits": [msgspec.structs.replace(HIT, agent="0; rm")]},
        {"hits": [msgspec.structs.replace(HIT, agent="9" * 17)]},
        {"hits": [msgspec.structs.replace(HIT, time=-1)]},
        {"hits": [msgspec.structs.replace(HIT, occurrences=10**6)]},
        {"hits": [msgspec.structs.replace(HIT, used=17)]},
        {"hits": [msgspec.structs.replace(HIT, counted=())]},
        {"hits": [msgspec.structs.replace(HIT, counted=(COUNTED,) * 33)]},
        {"hits": [msgspec.structs.replace(HIT, counted=(msgspec.structs.replace(COUNTED, key=(b"x" * 33,)),))]},
        {"hits": [msgspec.structs.replace(HIT, counted=(msgspec.structs.replace(COUNTED, key=(b"x",) * 65),))]},
        {"hits": [msgspec.structs.replace(HIT, counted=(msgspec.structs.replace(COUNTED, form=b"1"),))]},
    ],
)
async def test_bounds(wrong: dict[str, Any]) -> None:
    msgspec.msgpack.decode(msgspec.msgpack.encode(FULL), type=Hits)
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(wrong), type=Hits)
