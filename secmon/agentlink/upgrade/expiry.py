"""Expiry of tasks: those without an end time out, old ones are deleted (agent-link.md 10.7). On the master."""

import asyncio
import logging

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.tasks import lifecycle
from secmon.agents.tasks.store import TaskStore
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import os_text
from secmon.config.upgrades import TaskSettings

log = logging.getLogger("secmon.modulesd.upgrades")

LOOK_SECONDS = 5.0
CLEAN_SECONDS = 86_400.0


class TaskExpiry:
    """Expires tasks every few seconds; deletes old ones once a day."""

    def __init__(self, store: TaskStore, settings: TaskSettings, *, clock: Clock, counters: Counters) -> None:
        self._store, self._settings = store, settings
        self._clock, self._counters = clock, counters
        self._next_cleaning = clock.monotonic()
        self._failing = ""

    async def run(self) -> None:
        while True:
            await self.expire()
            await asyncio.sleep(LOOK_SECONDS)

    async def expire(self) -> None:
        """Expire tasks once. A lasting failure is logged once; the next call tries again."""
        try:
            lost = await asyncio.to_thread(self._look)
        except (SQLAlchemyError, OSError) as error:
            text = os_text(error) if isinstance(error, OSError) else str(error)
            if text != self._failing:
                log.error("The tasks of upgrades cannot be expired: %s", text)
            self._failing = text
            return
        self._failing = ""
        if lost:
            self._counters.add("upgrades.timed_out", lost)
            log.warning("%d upgrades have timed out", lost)

    def _look(self) -> int:
        now = int(self._clock.now().timestamp())
        cleaning = self._clock.monotonic() >= self._next_cleaning
        with self._store.read() as connection:  # there is seldom anything to write
            if not cleaning and not self._overdue(connection, now):
                return 0
        with self._store.write() as connection:
            lost = lifecycle.expire(connection, now=now, limit=self._settings.task_timeout)
            if cleaning:
                lifecycle.clean(connection, before=now - self._settings.cleanup_time)
                self._next_cleaning = self._clock.monotonic() + CLEAN_SECONDS
        return lost

    def _overdue(self, connection: Connection, now: int) -> bool:
        return lifecycle.any_silent(connection, now=now, limit=self._settings.task_timeout)
