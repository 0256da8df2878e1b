"""Internal operations that ``secmon requests slow`` reads: which requests of all nodes were slow, and why."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, structs

from secmon.cluster.catalogue import Place, operation
from secmon.cluster.executor import Context
from secmon.cluster.slow_requests import CAPACITY, SlowRequest
from secmon.common.errors import SecmonError
from secmon.common.identity import node_identity
from secmon.common.outcome import Outcome, absorb
from secmon.operations.every_node import ask_every_node
from secmon.operations.internal import INTERNAL

OWN = "GET /internal/own-slow-requests"


class SlowRequestsOf(Struct, frozen=True, kw_only=True):
    """The slowest ``limit`` requests of the last ``seconds``."""

    seconds: Annotated[int, Meta(ge=1, le=31 * 86_400)] = 3600
    limit: Annotated[int, Meta(ge=1, le=CAPACITY)] = 20


@operation(
    "GET", "/internal/own-slow-requests", params=SlowRequestsOf, open_to_all=True, exempt=True, catalogue=INTERNAL,
    item=SlowRequest,
)  # fmt: skip
async def read_own_slow_requests(ctx: Context, params: SlowRequestsOf) -> Outcome:
    """The slow requests of this node's clients, the slowest first."""
    since = timedelta(seconds=params.seconds)
    found = await ctx.node.services.control.slow_requests(since=since, limit=params.limit)
    return Outcome(items=list(found))


@operation(
    "GET", "/internal/slow-requests", params=SlowRequestsOf, place=Place.MASTER, open_to_all=True, exempt=True,
    catalogue=INTERNAL, item=SlowRequest,
)  # fmt: skip
async def read_slow_requests(ctx: Context, params: SlowRequestsOf) -> Outcome:
    """The slow requests of the clients of all nodes, the slowest first."""
    by_master = replace(
        ctx, call=structs.replace(ctx.call, identity=node_identity())
    )  # no other node takes a local one
    answers, outcome = await ask_every_node(by_master, OWN, lambda node: params)
    found: list[SlowRequest] = []
    for name, answer in answers.items():
        try:
            found += _sound(answer, params.limit)
        except SecmonError as error:
            outcome.node_errors |= absorb(error, name).node_errors
    outcome.items = sorted(found, key=lambda each: -each.seconds)[: params.limit]
    outcome.total = len(outcome.items)
    return outcome


def _sound(answer: Outcome, limit: int) -> Sequence[SlowRequest]:
    """Raises 3036 for what is none of ours."""
    try:
        return msgspec.convert(answer.items[:limit], list[SlowRequest])
    except msgspec.ValidationError as error:
        raise SecmonError(3036, str(error)) from None
