"""One call, several nodes, one deadline: a node that does not answer in time costs its own share only."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from msgspec import structs

from secmon.cluster.call import Call
from secmon.cluster.node import Peer
from secmon.common.errors import SecmonError
from secmon.common.outcome import Result
from secmon.common.trace import span
from secmon.config.options import InternalOptions

NodeResult = Result | SecmonError

MARGIN = 0.05
"""Share of the remaining time kept for merging and for the way back."""
MARGIN_SECONDS = (0.02, 0.5)
"""Bounds of the margin."""


class CallLimits:
    """Bounds of the calls in flight: a node that hangs fills its own share, and the others are asked as before."""

    def __init__(self, *, per_node: int, total: int) -> None:
        self._per_node = per_node
        self._nodes: dict[str, asyncio.Semaphore] = {}
        self._total = asyncio.Semaphore(total)

    @classmethod
    def of(cls, options: InternalOptions) -> "CallLimits":
        """As the internal options say."""
        return cls(per_node=options.get("clusterd.calls_per_node"), total=options.get("clusterd.fanout_limit"))

    @asynccontextmanager
    async def slot(self, node: str) -> AsyncIterator[None]:
        """Wait for the turn of a call to ``node``, and hold it."""
        own = self._nodes.setdefault(node, asyncio.Semaphore(self._per_node))  # names are those of members
        async with AsyncExitStack() as held:
            with span("queue", node):
                for one in (own, self._total):  # in this order: who waits for a node holds nothing of the others
                    await held.enter_async_context(one)
            yield


async def fan_out(
    call: Call,
    peers: Mapping[str, Peer],
    now: float,
    *,
    limits: CallLimits,
    params: Mapping[str, Any] | None = None,
) -> dict[str, NodeResult]:
    """The answer, or the error, of each of ``peers``, in their order, before ``call.deadline``.

    ``now`` is the monotonic clock's reading. ``limits`` bounds the calls in flight. ``params`` holds what each node is
    asked instead of the call's own parameters. Cancelling cancels every part.
    """
    budget = None if call.deadline is None else _shorten(call.deadline - now)
    deadline = None if budget is None else now + budget
    # One end for all: a turn that comes free because its holder's time is over is no turn for those who waited for it.
    end = None if budget is None else asyncio.get_running_loop().time() + budget
    inner = structs.replace(call, deadline=deadline, token="")  # other nodes could use the token themselves
    async with asyncio.TaskGroup() as group:
        tasks = {
            name: group.create_task(_call_node(_with_params(inner, params, name), name, peer, end, limits))
            for name, peer in peers.items()
        }
    return {name: task.result() for name, task in tasks.items()}


def _with_params(call: Call, params: Mapping[str, Any] | None, name: str) -> Call:
    return call if params is None else structs.replace(call, params=params[name])


async def _call_node(call: Call, name: str, peer: Peer, end: float | None, limits: CallLimits) -> NodeResult:
    try:
        async with asyncio.timeout_at(end), limits.slot(name):
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
