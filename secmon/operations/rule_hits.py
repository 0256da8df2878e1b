"""Hits of composites that are counted over the cluster: nodes report them to the master, which passes them on."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.rule_hits import MAX_SENDERS, Hits, HitsOf
from secmon.common.errors import SecmonError
from secmon.common.outcome import Plain
from secmon.operations.internal import INTERNAL

HITS_OF_OTHERS = "PUT /internal/hits/others"
_encode = msgspec.msgpack.Encoder().encode


@operation(
    "PUT", "/internal/hits", params=Hits, place=Place.MASTER, open_to_all=True, exempt=True, catalogue=INTERNAL,
)  # fmt: skip
async def relay_hits(ctx: Context, params: Hits) -> Plain:
    """Take over the hits of a node, for all others. Answered at once: a node that is slow costs its own hits only."""
    relay = ctx.node.services.hit_relay
    if relay is None:
        raise SecmonError(3012)
    relay.offer(ctx.origin, params)
    return Plain()


class HitsOfOthers(Struct, frozen=True, kw_only=True):
    """What other nodes have reported to the master, which knows each by its certificate."""

    senders: Annotated[list[HitsOf], Meta(max_length=MAX_SENDERS)]


@operation(
    "PUT", "/internal/hits/others", params=HitsOfOthers, open_to_all=True, exempt=True, catalogue=INTERNAL,
)  # fmt: skip
async def count_hits_of_others(ctx: Context, params: HitsOfOthers) -> Plain:
    """Hand hits of other nodes to the analysis of this one."""
    analysis = ctx.node.services.analysis
    if analysis is None:
        raise SecmonError(3012)
    await analysis.count_hits(_encode(params.senders))
    return Plain()
