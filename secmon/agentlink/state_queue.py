"""Updates of agents' states, written to the store in batches and outside the event loop."""

import asyncio
import logging

from sqlalchemy.exc import SQLAlchemyError

from secmon.agents.registry.store import AgentStore
from secmon.agents.state_updates import ChangedKeepalive, Origin, StateUpdate, apply
from secmon.common.logfile.failure_log import FailureLog
from secmon.common.sqlite.faults import storage_reason

log = logging.getLogger("secmon.agentlink")

PERIOD_SECONDS = 0.5
MAX_PER_AGENT = 8
"""Updates kept for each agent: later ones replace earlier ones."""


class StateQueue:
    """Gathers updates and writes them every ``PERIOD_SECONDS``. The updates of one agent are bounded."""

    def __init__(self, store: AgentStore, origin: Origin) -> None:
        self._store = store
        self._origin = origin
        self._waiting: dict[int, list[StateUpdate]] = {}
        self._stopping = asyncio.Event()
        self._writing = asyncio.Lock()
        self._trouble = FailureLog(
            log, "States of agents cannot be written, and are kept", "States of agents are written again"
        )

    def add(self, update: StateUpdate) -> None:
        known = self._waiting.get(update.agent)
        if known is None or isinstance(update, ChangedKeepalive):  # it holds the whole state
            self._waiting[update.agent] = [update]
        elif type(known[-1]) is type(update):
            known[-1] = update
        else:
            known.append(update)
            del known[:-MAX_PER_AGENT]

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
        """Write all updates that were added before; after a failure they are kept for the next flush."""
        async with self._writing:
            batch, self._waiting = self._waiting, {}
            if batch:
                await self._write_or_keep(batch)

    async def _write_or_keep(self, batch: dict[int, list[StateUpdate]]) -> None:
        try:
            await asyncio.to_thread(self._write, [update for updates in batch.values() for update in updates])
        except SQLAlchemyError as error:
            self._trouble.failed(storage_reason(error))
            newer, self._waiting = self._waiting, batch
            for updates in newer.values():
                for update in updates:
                    self.add(update)
        else:
            self._trouble.succeeded()

    def _write(self, batch: list[StateUpdate]) -> None:
        with self._store.write() as connection:
            apply(connection, batch, self._origin)
