"""Members of groups, for permissions on groups: cached, and updated by the registry's revision."""

from collections.abc import Set
from typing import Any

from sqlalchemy import Connection, Select, select

from secmon.agents.names import padded, split_groups
from secmon.agents.registry.schema import agent_groups, agents, removed
from secmon.agents.registry.store import AgentStore, get, number

EVERY = "*"
MANAGER = "000"

_MAX_GROUPS = 256
"""Maximum number of cached groups; the cache is cleared beyond it."""


class Memberships:
    """Ids of agents in the form of the API. The sets change later: take copies. For one thread."""

    def __init__(self, store: AgentStore) -> None:
        self._store = store
        self._origin: tuple[str | None, str | None] = (None, None)
        self._revision = 0
        self._groups: dict[str, set[str]] = {}

    def members(self, group: str) -> Set[str]:
        """Agents of ``group``, of any group at all for ``*``; none for a group that does not exist."""
        with self._store.read() as connection:
            self._follow(connection)
            found = self._groups.get(group)
            if found is None:
                if len(self._groups) >= _MAX_GROUPS:
                    self._groups.clear()
                ids = connection.execute(_member_query(group)).scalars()
                found = self._groups[group] = {padded(agent) for agent in ids}
        return found

    def everybody(self) -> Set[str]:
        """All agents, and the manager."""
        with self._store.read() as connection:
            return {MANAGER, *(padded(agent) for agent in connection.execute(select(agents.c.id)).scalars())}

    def _follow(self, connection: Connection) -> None:
        """Apply the changes since the last call: cheaper than expanding the groups of 100,000 agents."""
        origin = get(connection, "store_id"), get(connection, "source")
        revision = number(connection, "revision")
        if origin != self._origin or revision < self._revision:
            self._groups.clear()
        elif revision > self._revision and self._groups:
            gone = select(removed.c.id).where(removed.c.revision > self._revision)
            came = select(agents.c.id, agents.c.group).where(agents.c.revision > self._revision)
            for agent in connection.execute(gone).scalars():
                self._place(agent, ())
            for agent, joined in connection.execute(came):
                self._place(agent, split_groups(joined))
        self._origin, self._revision = origin, revision

    def _place(self, agent: int, groups: tuple[str, ...]) -> None:
        for name, members in self._groups.items():
            if name in groups or (groups and name == EVERY):
                members.add(padded(agent))
            else:
                members.discard(padded(agent))


def _member_query(group: str) -> Select[Any]:
    if group == EVERY:
        return select(agents.c.id).where(agents.c.group.is_not(None))
    return select(agent_groups.c.agent_id).where(agent_groups.c.name == group)
