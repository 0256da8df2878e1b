"""The first assignment of agents to a group, at their first keepalive (agent-link.md 7.6). On the master."""

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress

from sqlalchemy import Connection, select

from secmon.agents.groups.folders import list_groups, merged_path
from secmon.agents.names import DEFAULT_GROUP
from secmon.agents.registry.registry import assign
from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.common.paths import Paths

_AT_ONCE = 1000
_GROUP = select(agents.c.id, agents.c.group)


def assign_first_groups(
    store: AgentStore, paths: Paths, wanted: Mapping[int, str], *, guess: bool = False
) -> dict[int, str]:
    """Give agents that were never assigned their first group; agents' groups joined by commas. Blocks.

    ``wanted`` is the md5 of the merged file each agent has. ``guess``: the group that has the same file, if any; else
    ``default``. Agents that do not exist are left out.
    """
    groups = _by_sum(paths) if guess else {}
    with store.write() as connection:
        known = _groups(connection, wanted)
        first = {agent: groups.get(wanted[agent], DEFAULT_GROUP) for agent, joined in known.items() if joined is None}
        assign(connection, {agent: (group,) for agent, group in first.items()})
    return {agent: joined or first[agent] for agent, joined in known.items()}


def _groups(connection: Connection, wanted: Iterable[int]) -> dict[int, str | None]:
    """The groups of each agent that exists, joined by commas."""
    found: dict[int, str | None] = {}
    ids = list(wanted)
    for start in range(0, len(ids), _AT_ONCE):
        some = agents.c.id.in_(ids[start : start + _AT_ONCE])
        found.update((agent, joined or None) for agent, joined in connection.execute(_GROUP.where(some)))
    return found


def _by_sum(paths: Paths) -> dict[str, str]:
    """Groups by the md5 of their merged file; of equal files the first group by name."""
    found: dict[str, str] = {}
    for name in list_groups(paths):
        with suppress(FileNotFoundError):
            data = merged_path(paths, name).read_bytes()
            found.setdefault(hashlib.md5(data, usedforsecurity=False).hexdigest(), name)
    return found
