"""Follows the registry: new keys are accepted, removed agents disconnected, shared files of other groups sent."""

import asyncio
import logging

from sqlalchemy.exc import SQLAlchemyError

from secmon.agentlink.agent_table import AgentTable, read_changes
from secmon.agentlink.connection_pool import ConnectionPool
from secmon.agentlink.counters import LinkCounts
from secmon.agentlink.message_counters import CounterVerification
from secmon.agentlink.shared import SharedFiles
from secmon.agents.registry.store import AgentStore

log = logging.getLogger("secmon.agentlink")

POLL_SECONDS = 0.25
_PAUSE_SECONDS = 2.0
"""After a read that failed."""


class RegistryFollower:
    """Applies changes of the registry to the agent table and to everything that depends on it."""

    def __init__(
        self,
        store: AgentStore,
        agents: AgentTable,
        shared: SharedFiles,
        pool: ConnectionPool,
        verification: CounterVerification | None,
        counts: LinkCounts,
    ) -> None:
        self._store = store
        self._agents = agents
        self._shared = shared
        self._pool = pool
        self._verification = verification
        self._counts = counts
        self._refreshing = asyncio.Lock()

    async def run(self) -> None:
        """Poll the registry; does not return."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self.refresh()
            except SQLAlchemyError as error:
                log.error("The registry of agents cannot be read: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def refresh(self) -> None:
        """Apply what is new in the registry. Raises SQLAlchemyError."""
        async with self._refreshing:
            await self._refresh()

    async def _refresh(self) -> None:
        changes = await asyncio.to_thread(read_changes, self._store, self._agents.position)
        if changes is None:
            return
        # The groups' files are known before an agent of the group is judged.
        await self._shared.refresh({row.group for row in changes.rows if row.group})
        applied = self._agents.apply(changes)
        self._counts.reloads += 1
        self._pool.close_connections_of(applied.stale)
        if self._verification is not None:
            for agent in applied.stale:
                await self._verification.forget(agent)
        self._shared.update_agents(applied.regrouped)
