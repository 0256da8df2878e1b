"""Agents' states on their way into the store: many in one transaction, off the loop."""

import asyncio
import logging

from sqlalchemy.exc import SQLAlchemyError

from secmon.common.agents.states import Origin, StateUpdate, Touch, apply
from secmon.common.agents.store import AgentStore

log = logging.getLogger("secmon.agentlink")

PERIOD_SECONDS = 0.5
MAX_WAITING = 200_000
"""Updates kept while the store cannot be written; beyond, those go that only say that an agent lives."""


class StateQueue:
    """Gathers updates and writes them every ``PERIOD_SECONDS``."""

    def __init__(self, store: AgentStore, origin: Origin) -> None:
        self._store = store
        self._origin = origin
        self._waiting: list[StateUpdate] = []
        self._stopping = asyncio.Event()
        self.dropped = 0

    def add(self, update: StateUpdate) -> None:
        self._waiting.append(update)

    async def run(self) -> None:
        """Write until :meth:`stop`, then once more."""
        while not self._stopping.is_set():
            try:
                await asyncio.wait_for(self._stopping.wait(), PERIOD_SECONDS)
            except TimeoutError:
                pass
            await self.flush()

    def stop(self) -> None:
        self._stopping.set()

    async def flush(self) -> None:
        """Write what waits; on failure it waits on."""
        batch, self._waiting = self._waiting, []
        if not batch:
            return
        try:
            await asyncio.to_thread(self._write, batch)
        except SQLAlchemyError as error:
            log.error("States of agents cannot be written, and are kept: %s", error)
            self._waiting = self._bounded(batch + self._waiting)

    def _write(self, batch: list[StateUpdate]) -> None:
        with self._store.write() as connection:
            apply(connection, batch, self._origin)

    def _bounded(self, updates: list[StateUpdate]) -> list[StateUpdate]:
        if len(updates) <= MAX_WAITING:
            return updates
        kept = list[StateUpdate](one for one in updates if not isinstance(one, Touch))[-MAX_WAITING:]
        self.dropped += len(updates) - len(kept)
        return kept
