"""Hits of composites that are counted over the cluster, from each node to all others.

Each node has its own queue, with a share for each sender: a node that hangs delays its own messages only, and one that
floods fills its own share only. While a message is on its way, the hits of all senders gather for the next one.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from secmon.cluster.call import Call, new_request_id
from secmon.cluster.node import Membership, NodeCalls
from secmon.cluster.rule_hits import MAX_HITS, MAX_SENDERS, Hits, HitsOf
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.identity import node_identity
from secmon.common.logfile.warning_limiter import WarningLimiter
from secmon.operations.internal import INTERNAL
from secmon.operations.rule_hits import HITS_OF_OTHERS, HitsOfOthers

log = logging.getLogger("secmon.clusterd.hits")

CALL_SECONDS = 5.0
MESSAGES_A_SECOND = 20
"""Messages of one node that are taken over: it sends five when there is much to report."""

_SENDERS = 8
"""Whose hits are in one message, so that it stays below a megabyte."""

Ahead = Callable[[str], int]
"""Seconds that the clock of a node is ahead of the master's, as far as that is to be corrected."""


class HitRelay:
    """Implements ``cluster.node.HitRelay``. For one event loop."""

    def __init__(
        self, nodes: NodeCalls, membership: Membership, ahead: Ahead, *, clock: Clock, counters: Counters
    ) -> None:
        self._nodes, self._membership, self._ahead = nodes, membership, ahead
        self._clock, self._counters = clock, counters
        self._waiting: dict[str, dict[str, Hits]] = {}
        """Hits by the node that they are for, and by their sender."""
        self._busy: set[str] = set()
        self._offered = asyncio.Event()
        self._taken: dict[str, tuple[int, int]] = {}
        """Second, and messages of it, by sender."""
        self._warnings = WarningLimiter(log, clock, per_window=1)

    def offer(self, sender: str, hits: Hits) -> None:
        """Take over what a node has to report. What is too much is dropped and counted."""
        if not self._within_rate(sender):
            self._counters.add("hits.refused", len(hits))
            self._warnings.warn(sender, "Node %s sends too many messages with hits of rules: some are dropped", sender)
            return
        for member in self._membership.members():
            if member.name == sender:
                continue
            waiting = self._waiting.setdefault(member.name, {})
            known = waiting.get(sender)
            if known is None and len(waiting) < MAX_SENDERS:
                waiting[sender] = hits
            elif known is not None and max(len(known.hits), len(known.firings)) + len(hits) <= MAX_HITS:
                waiting[sender] = Hits(hits=known.hits + hits.hits, firings=known.firings + hits.firings)
            else:
                self._counters.add("hits.dropped", len(hits))
        self._offered.set()

    async def run(self) -> None:
        """Pass on what is offered, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._offered.wait()
                self._offered.clear()
                for name in [name for name in self._waiting if name not in self._busy]:
                    self._busy.add(name)
                    group.create_task(self._pass_on(name))

    async def _pass_on(self, name: str) -> None:
        """All that waits for a node."""
        try:
            while waiting := self._waiting.pop(name, None):
                for some in _parts(waiting.items()):
                    await self._call(name, some)
        finally:
            self._busy.discard(name)

    async def _call(self, name: str, waiting: Sequence[tuple[str, Hits]]) -> None:
        clock = self._ahead(name)
        senders = [
            HitsOf(node=sender, ahead=clock - self._ahead(sender), hits=hits.hits, firings=hits.firings)
            for sender, hits in waiting
        ]
        call = Call(
            operation=INTERNAL[HITS_OF_OTHERS],
            params=None,
            identity=node_identity(),
            request_id=new_request_id(),
            deadline=self._clock.monotonic() + CALL_SECONDS,
        )
        answers: dict[str, Any] = dict(await self._nodes.call_nodes(call, {name: HitsOfOthers(senders=senders)}))
        count = sum(map(len, senders))
        if isinstance(answers[name], SecmonError):
            self._counters.add("hits.undelivered", count)
            log.debug("Hits of rules did not reach node %s: %s", name, answers[name].message)
        else:
            self._counters.add("hits.relayed", count)

    def _within_rate(self, sender: str) -> bool:
        second, count = self._taken.get(sender, (0, 0))
        now = int(self._clock.monotonic())
        self._taken[sender] = (now, count + 1 if now == second else 1)
        return now != second or count < MESSAGES_A_SECOND


def _parts(waiting: Iterable[tuple[str, Hits]]) -> Iterator[list[tuple[str, Hits]]]:
    left = iter(waiting)
    while some := list(islice(left, _SENDERS)):
        yield some
