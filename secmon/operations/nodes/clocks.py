"""Internal operations by which ``secmon doctor`` learns which nodes answer the master, and what their clocks show."""

from dataclasses import replace

from msgspec import Struct, structs

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.parameters import NoParams
from secmon.common.identity import node_identity
from secmon.common.outcome import Outcome
from secmon.operations.every_node import ask_every_node
from secmon.operations.internal import INTERNAL

OWN = "GET /internal/own-clock"


class NodeClock(Struct, frozen=True):
    """``ahead``: seconds that the clock of ``node`` is ahead of the master's, ``uncertain`` seconds less or more."""

    node: str
    ahead: float
    uncertain: float


@operation(
    "GET", "/internal/own-clock", params=NoParams, open_to_all=True, exempt=True, catalogue=INTERNAL, item=float
)  # fmt: skip
async def read_own_clock(ctx: Context, params: NoParams) -> Outcome:
    """What the clock of this node shows, in seconds since 1970."""
    return Outcome(items=[ctx.node.clock.now().timestamp()])


@operation(
    "GET", "/internal/clocks", params=NoParams, place=Place.MASTER, open_to_all=True, exempt=True, catalogue=INTERNAL,
    item=NodeClock,
)  # fmt: skip
async def compare_clocks(ctx: Context, params: NoParams) -> Outcome:
    """The clocks of all nodes that answer the master, compared with its own."""
    by_master = replace(
        ctx, call=structs.replace(ctx.call, identity=node_identity())
    )  # no other node takes a local one
    clock = ctx.node.clock
    began = clock.now().timestamp()
    answers, outcome = await ask_every_node(by_master, OWN, lambda node: params)
    uncertain = (clock.now().timestamp() - began) / 2
    for name, answer in answers.items():
        shown = answer.items[0] if answer.items else None
        if isinstance(shown, float):
            outcome.items.append(NodeClock(name, shown - began - uncertain, uncertain))
    outcome.total = len(outcome.items)
    return outcome
