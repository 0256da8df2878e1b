"""The module of ``secmon-modulesd`` that logs the end of the audit log every day, on the master.

A user who can write both the audit log and the security store can replace the whole chain. The lines logged here leave
the host with the node's log, and a replaced chain does not match them: ``secmon audit verify --anchor``.
"""

import asyncio
import logging
from datetime import date

from sqlalchemy.exc import SQLAlchemyError

from secmon.common.clock import Clock
from secmon.security.store.security_store import SecurityStore

log = logging.getLogger("secmon.modulesd.audit")

LOOK_SECONDS = 60.0


class AuditAnchors:
    """Logs the last line that the security store knows of: at the start, and on each day (UTC)."""

    def __init__(self, store: SecurityStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._day: date | None = None

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Log the anchor of the day, unless it was logged. A store that cannot be read is tried again later."""
        today = self._clock.now().date()
        if today == self._day:
            return
        try:
            end = await asyncio.to_thread(self._store.audit_end)
        except SQLAlchemyError as error:
            log.error("The end of the audit log is not known: %s", error)
            return
        if end is not None:  # otherwise there is no change yet: the first change of the day gets its anchor
            self._day = today
            log.info("Audit anchor: %s (number and hash of the last line of the audit log)", end)
