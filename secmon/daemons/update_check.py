"""The module of ``secmon-modulesd`` that checks for newer versions once a day, on the master (manager.md 13.2)."""

import asyncio
import logging

from secmon.cluster.updates.check import UpdateService
from secmon.common.clock import Clock
from secmon.common.errors import SecmonError

log = logging.getLogger("secmon.modulesd.updates")

DAY_SECONDS = 86_400.0
LOOK_SECONDS = 3600.0
"""Between two checks, and between two attempts of a request that fails."""

FETCH_SECONDS = 30.0


class UpdateCheckTask:
    """Sends a request when the last answer is a day old. Clients of the API can send one too."""

    def __init__(self, updates: UpdateService, clock: Clock) -> None:
        self._updates, self._clock = updates, clock
        self._failure = ""

    async def run(self) -> None:
        while True:
            wait = await self.look()
            await asyncio.sleep(wait)

    async def look(self) -> float:
        """Send a request if it is due; returns the seconds until the next check. A repeated failure is logged once."""
        try:
            wait = await self._left()
            if wait <= 0:
                await self._updates.fetch(FETCH_SECONDS)
                wait = DAY_SECONDS
        except SecmonError as error:
            if error.message != self._failure:
                log.error("Newer versions are not known: %s", error.message)
            self._failure = error.message
            return LOOK_SECONDS
        self._failure = ""
        return min(wait, LOOK_SECONDS)

    async def _left(self) -> float:
        """Seconds until the last answer is a day old; 0 for one from the future (the clock was set back)."""
        last = await asyncio.to_thread(self._updates.last)
        age = (self._clock.now() - last.asked_at).total_seconds() if last else DAY_SECONDS
        return DAY_SECONDS - age if age >= 0 else 0.0
