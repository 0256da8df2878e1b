"""Reports hits to the other nodes, in messages: each collects for a moment, and the next waits for its answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict

import msgspec

from secmon.cluster.rule_hits import Hits, HitsOf
from secmon.common.errors import SecmonError
from secmon.common.logfile.failure_log import FailureLog
from secmon.engine.cluster_hits.cluster_memory import ClusterMemory

log = logging.getLogger("secmon.analysisd.hits")

COLLECT_SECONDS = 0.2

_decode = msgspec.msgpack.Decoder(list[HitsOf]).decode

Send = Callable[[Hits], Awaitable[object]]
"""Reports hits to the master, which passes them on. Raises SecmonError."""


class HitExchange:
    """Sends what the analysis thread has to report. What does not arrive is not sent again: it is late."""

    def __init__(self, memory: ClusterMemory, send: Send) -> None:
        self.unsent = 0
        """Hits of messages that the master did not take."""
        self._memory = memory
        self._send = send
        self._failure = FailureLog(
            log, "Hits of rules are counted on this node only", "Hits of rules are counted over the cluster again"
        )

    async def run(self) -> None:
        """Until cancelled."""
        loop, waiting = asyncio.get_running_loop(), asyncio.Event()
        self._memory.outgoing.wake = lambda: loop.call_soon_threadsafe(waiting.set)
        waiting.set()  # some may have come before
        while True:
            await waiting.wait()
            await asyncio.sleep(COLLECT_SECONDS)
            waiting.clear()
            while (hits := self._memory.outgoing.take()) is not None:
                await self._report(hits)

    def received(self, data: bytes) -> None:
        """What the master has passed on. Raises ValidationError for what is no such message."""
        self._memory.arrived(_decode(data))

    async def _report(self, hits: Hits) -> None:
        try:
            await self._send(hits)
        except SecmonError as error:
            self.unsent += len(hits.hits)
            self._failure.call_failed(error)
        else:
            self._failure.succeeded()

    def counters(self) -> dict[str, int]:
        """What was reported, and what others have reported."""
        outgoing = self._memory.outgoing
        others = {f"of_others.{name}": value for name, value in asdict(self._memory.counters).items()}
        return {
            "sent": outgoing.sent - self.unsent,
            "unsent": self.unsent,
            "dropped": outgoing.dropped,
            "superfluous": outgoing.superfluous,
            **others,
        }
