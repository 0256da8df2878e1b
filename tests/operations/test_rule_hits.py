"""Hits of rules between nodes: the master names the sender by its certificate, and asks for nothing in return."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from secmon.cluster.rule_hits import Counted, Hit, Hits, HitsOf
from secmon.common.errors import SecmonError
from secmon.common.identity import node_identity
from secmon.common.outcome import Plain
from secmon.operations.all import EXECUTABLE
from tests.operations.world import World

pytestmark = pytest.mark.anyio

HIT = Hit(0, 1, 100330, 1_700_000_000_000, "001", 1, (Counted(100331, b"12345678", (b"\xff\x00",)),))


@pytest.fixture
def world(tmp_path: Path, security_db: Path) -> Iterator[World]:
    made = World(tmp_path, security_db, catalogue=EXECUTABLE)
    made.start("alpha")
    made.start("beta")
    yield made
    made.close()


@dataclass
class Offered:
    """A relay that notes what it gets."""

    found: list[tuple[str, Hits]] = field(default_factory=list)

    def offer(self, sender: str, hits: Hits) -> None:
        self.found.append((sender, hits))


@dataclass
class Heard:
    """An analysis that notes what it gets."""

    data: list[bytes] = field(default_factory=list)

    async def count_hits(self, senders: bytes) -> None:
        self.data.append(senders)


async def ask(world: World, name: str, params: dict[str, Any], *, worker: str = "", on: str = "alpha") -> None:
    running = world.nodes[on]
    call = world.call(name, "admin", params, on=running)
    answer = await running.router.route(structs.replace(call, node=worker, identity=node_identity()))
    assert answer == Plain()


async def test_the_sender_is_who_called(world: World) -> None:
    relay = world.nodes["alpha"].node.services.hit_relay = Offered()
    await ask(world, "PUT /internal/hits", {"hits": [HIT], "node": "gamma"}, worker="beta")
    await ask(world, "PUT /internal/hits", {"hits": [HIT]})
    assert relay.found == [("beta", Hits(hits=[HIT])), ("alpha", Hits(hits=[HIT]))]


async def test_a_node_without_a_relay_says_so(world: World) -> None:
    with pytest.raises(SecmonError) as refused:
        await ask(world, "PUT /internal/hits", {"hits": [HIT]}, worker="beta")
    assert refused.value.code == 3012


async def test_the_analysis_gets_what_others_have_sent(world: World) -> None:
    heard: Any = Heard()
    world.nodes["beta"].node.services.analysis = heard
    senders: Sequence[HitsOf] = [HitsOf(node="alpha", ahead=-3, hits=[HIT])]
    await ask(world, "PUT /internal/hits/others", {"senders": senders}, on="beta")
    assert msgspec.msgpack.decode(heard.data[0], type=list[HitsOf]) == senders
