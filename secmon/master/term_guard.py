"""When a master with a store of record begins calls: in its term, and those to other nodes once these have joined."""

from collections.abc import Awaitable, Callable

from secmon.cluster.call import Call
from secmon.cluster.catalogue import Place
from secmon.cluster.leadership.known_term import KnownTerm
from secmon.cluster.node import CallRouter
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError
from secmon.common.outcome import Result

CLOSED_SECONDS = 10.0
"""After a change that was refused because the term has ended: by then the node knows the next one."""
_TO_NODES = frozenset({Place.NODE, Place.NODES, Place.AGENT})


class TermGuard:
    """Implements ``cluster.node.CallRouter``, in front of the router of the master.

    A call is repeated when the store of record has refused its change. Run here again it would find the files that its
    first attempt has left, which the next master does not have.
    """

    def __init__(
        self,
        node: str,
        router: CallRouter,
        known: KnownTerm,
        clock: Clock,
        *,
        gathered: Callable[[], Awaitable[object]],
    ) -> None:
        """``node``: the name of this one, for errors. ``gathered`` waits for the other nodes to join."""
        self._node, self._router, self._known, self._clock = node, router, known, clock
        self._gathered = gathered
        self._term = known.number
        self._closed_until = float("-inf")

    async def route(self, call: Call) -> Result:
        """As the router; raises 3051 when the term has ended."""
        if self._known.number > self._term or self._clock.monotonic() < self._closed_until:
            raise SecmonError(3051, nodes={self._node: SecmonError(3051).message})
        if call.operation.place in _TO_NODES:
            await self._gathered()
        try:
            return await self._router.route(call)
        except SecmonError as error:
            if error.code == 3051:
                self._closed_until = self._clock.monotonic() + CLOSED_SECONDS
            raise
