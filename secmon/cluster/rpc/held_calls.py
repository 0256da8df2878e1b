"""Calls that had no effect are repeated for a while: where nodes change their roles, there is a master again soon."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from secmon.cluster.rpc.gen import secmon_pb2 as pb
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError
from secmon.common.outcome import Result
from secmon.common.trace import span

NO_EFFECT = frozenset({3012, 3020, 3023, 3051, 3053})
"""Errors that say that nothing was done: no cluster daemon or master took the call, or it was not the master any more.

An answer that is lost on the way has such a code only when the call is a read; else it is 3052.
"""
FIRST_SECONDS = 0.05
LONGEST_SECONDS = 0.25
"""Between two attempts; the pause doubles from the first to the longest, with jitter."""


def is_read(request: pb.ExecuteRequest) -> bool:
    """Whether the call changes nothing, so that it can be repeated although it may have been done."""
    return request.operation.startswith("GET ")


class HeldCalls:
    """Holds calls while there is no master. ``seconds``: at most for each of them; 0: not at all."""

    def __init__(self, clock: Clock, counters: Counters, *, seconds: float, rng: random.Random | None = None) -> None:
        self._clock, self._counters, self._seconds = clock, counters, seconds
        self._random = rng or random.Random()
        self._held = 0

    async def run(self, attempt: Callable[[], Awaitable[Result]], deadline: float | None) -> Result:
        """The result of the first attempt that has an effect. Raises what an attempt raises, when the hold is over."""
        end = self._clock.monotonic() + self._seconds
        end = end if deadline is None else min(end, deadline)
        pause = FIRST_SECONDS
        while True:
            try:
                return await attempt()
            except SecmonError as error:
                wait = pause * self._random.uniform(0.5, 1.0)
                if error.code not in NO_EFFECT or self._clock.monotonic() + wait >= end:
                    raise
            await self._hold(wait)
            pause = min(2 * pause, LONGEST_SECONDS)

    async def _hold(self, seconds: float) -> None:
        self._counters.add("calls.repeated")
        self._held += 1
        self._counters.set("calls.held", self._held)
        try:
            with span("master"):
                await asyncio.sleep(seconds)
        finally:
            self._held -= 1
            self._counters.set("calls.held", self._held)
