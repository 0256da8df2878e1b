"""One call, several nodes, one deadline: a node that does not answer in time costs its own share only."""

import asyncio
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from secmon.cluster.call import Call
from secmon.cluster.node import Peer
from secmon.common.errors import SecmonError
from secmon.common.outcome import Result

Answer = Result | SecmonError

MARGIN = 0.05
"""Share of the remaining time kept for merging and for the way back."""
MARGIN_SECONDS = (0.02, 0.5)
"""Bounds of the margin."""


async def fan_out(
    call: Call,
    peers: Mapping[str, Peer],
    now: float,
    *,
    limit: asyncio.Semaphore,
    params: Mapping[str, Any] | None = None,
) -> dict[str, Answer]:
    """The answer, or the error, of each of ``peers``, in their order, before ``call.deadline``.

    ``now`` is the monotonic clock's reading. ``limit`` bounds the calls in flight. ``params`` holds what each node is
    asked instead of the call's own parameters. Cancelling cancels every part.
    """
    budget = None if call.deadline is None else _shorten(call.deadline - now)
    deadline = None if budget is None else now + budget
    inner = structs.replace(call, deadline=deadline, token="")  # other nodes could use the token themselves
    async with asyncio.TaskGroup() as group:
        tasks = {
            name: group.create_task(_ask(_addressed(inner, params, name), name, peer, budget, limit))
            for name, peer in peers.items()
        }
    return {name: task.result() for name, task in tasks.items()}


def _addressed(call: Call, params: Mapping[str, Any] | None, name: str) -> Call:
    return call if params is None else structs.replace(call, params=params[name])


async def _ask(call: Call, name: str, peer: Peer, budget: float | None, limit: asyncio.Semaphore) -> Answer:
    try:
        async with asyncio.timeout(budget), limit:
            return await peer.execute(call, part=True)
    except SecmonError as error:
        return error
    except TimeoutError:
        late = SecmonError(3021, ids=(name,))
        late.nodes = {name: late.message}
        return late


def _shorten(remaining: float) -> float:
    low, high = MARGIN_SECONDS
    return max(0.0, remaining - min(high, max(low, remaining * MARGIN)))
