"""Rows of agents that were removed from the registry are deleted, on every node."""

from collections.abc import Iterable, Set
from typing import NamedTuple

from sqlalchemy import Connection, Table, bindparam, delete, func, select

from secmon.agents.registry.schema import agents, removed
from secmon.agents.registry.store import AgentStore, get, number
from secmon.inventory.schema import metadata
from secmon.inventory.store import InventoryStore

_MANAGER = 0
"""The agent on the manager itself, which is not in the registry."""


class _Position(NamedTuple):
    """The state of the registry: ``source`` names the one that it is a copy of."""

    source: str
    revision: int


class RemovedAgents:
    """Follows the registry. For the thread that also writes the inventory."""

    def __init__(self, inventory: InventoryStore, registry: AgentStore) -> None:
        self._inventory, self._registry = inventory, registry
        self._seen: _Position | None = None
        self._again: Set[int] = frozenset()
        self._was_caught_up = False

    def delete_rows(self, *, caught_up: bool) -> int:
        """Delete the rows of agents that were removed since the last call; returns how many agents that were.

        ``caught_up``: all messages of before this call will have been stored at the next call. Messages of a removed
        agent may be among them, so that its rows are deleted again then. Raises SQLAlchemyError, SecmonError.
        """
        gone = self._removed(caught_up)
        for agent in gone | self._again:
            self._delete(agent)
        self._again = gone if self._was_caught_up else gone | self._again
        self._was_caught_up = caught_up
        return len(gone)

    def _removed(self, caught_up: bool) -> Set[int]:
        with self._registry.read() as connection:
            here = _Position(get(connection, "source") or "", number(connection, "revision"))
            since = self._seen
            if here == since:
                return frozenset()
            if since is not None and since.source == here.source and since.revision < here.revision:
                self._seen = here
                found = select(removed.c.id).where(removed.c.revision > since.revision)
                return set(connection.execute(found).scalars())
            # Revisions of another registry cannot be compared: all agents are, until no message of before is left.
            registered = set(connection.execute(select(agents.c.id)).scalars())
            tombstones = set(connection.execute(select(removed.c.id)).scalars())
        self._seen = here if caught_up and self._was_caught_up else None
        stored = self._stored() if caught_up else set[int]()
        # A copy of the registry may be empty for a while.
        return (stored - registered if registered else stored & tombstones) - {_MANAGER}

    def _stored(self) -> set[int]:
        with self._inventory.read() as connection:
            return {agent for table in _tables() for agent in _agents(connection, table)}

    def _delete(self, agent: int) -> None:
        with self._inventory.write() as connection:
            for table in _tables():
                connection.execute(delete(table).where(table.c.agent_id == agent))


def _tables() -> Iterable[Table]:
    return [table for table in metadata.sorted_tables if "agent_id" in table.c]


def _agents(connection: Connection, table: Table) -> Iterable[int]:
    """The agents that have rows in ``table``: one look into its index for each."""
    column = table.c.agent_id
    following = select(func.min(column)).where(column > bindparam("agent"))
    agent: int | None = -1
    while (agent := connection.execute(following, {"agent": agent}).scalar()) is not None:
        yield agent
