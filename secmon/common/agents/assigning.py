"""First groups of agents, found when they first say which files they have (agent-link.md 7.6). On the master."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress

from secmon.common.agents.groups import list_groups, merged_path
from secmon.common.agents.names import DEFAULT_GROUP
from secmon.common.agents.registry import assign_first
from secmon.common.agents.store import AgentStore
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths


def assign_first_groups(
    store: AgentStore, paths: Paths, wanted: Mapping[int, str], *, guess: bool = False
) -> dict[int, str]:
    """Give agents that were never assigned their first group; agents' groups joined by commas. Blocks.

    ``wanted`` is the md5 of the merged file each agent has. ``guess``: the group that has the same file, if any; else
    ``default``. Agents that do not exist are left out.
    """
    groups = _by_sum(paths) if guess else {}
    found: dict[int, str] = {}
    with store.write() as connection:
        for agent, merged_sum in wanted.items():
            try:
                found[agent] = assign_first(connection, agent, groups.get(merged_sum, DEFAULT_GROUP))
            except SecmonError as error:
                if error.code != 1701:
                    raise
    return found


def _by_sum(paths: Paths) -> dict[str, str]:
    """Groups by the md5 of their merged file; of several with the same the first by name."""
    found: dict[str, str] = {}
    for name in list_groups(paths):
        with suppress(FileNotFoundError):
            data = merged_path(paths, name).read_bytes()
            found.setdefault(hashlib.md5(data, usedforsecurity=False).hexdigest(), name)
    return found
