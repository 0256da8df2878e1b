"""Shared files of groups: whether an agent has those of its groups; its first group (agent-link.md 7.5, 7.6)."""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from secmon.agentlink.agent_table import Agent, AgentTable
from secmon.agentlink.file_push import FilePusher
from secmon.agentlink.state_queue import StateQueue
from secmon.agents.groups.folders import merged_path
from secmon.agents.names import DEFAULT_GROUP
from secmon.agents.registry.schema import ConfigStatus
from secmon.agents.state_updates import ConfigStatusChange
from secmon.agents.wakeups import WakeupListener
from secmon.common.errors import SecmonError
from secmon.common.paths import Paths

log = logging.getLogger("secmon.agentlink")

SAFETY_SECONDS = 10.0
"""Between two checks of the merged files of the groups in use without a notification."""
MAX_ASSIGNED = 500
"""Agents of one request for first groups."""
GATHER_SECONDS = 0.1
"""Wait for more agents before a request: it costs little more for many than for one."""
RETRY_SECONDS = 0.5

Assigner = Callable[[Mapping[int, str]], Awaitable[Mapping[int, str]]]
"""Assigns first groups. Parameter: md5 of the files that each agent has, by number; result: group names joined by
commas, by number.

Agents that do not exist are left out of the answer. Raises SecmonError when the master cannot be reached.
"""


class MergedFile(NamedTuple):
    """A merged file: inode, size and time of change, and md5."""

    signature: tuple[int, int, int]
    sum: str


class SharedFiles:
    """The merged files of all combinations of groups in use."""

    def __init__(
        self, paths: Paths, agents: AgentTable, states: StateQueue, pusher: FilePusher, assigner: Assigner
    ) -> None:
        self._paths = paths
        self._agents = agents
        self._states = states
        self._pusher = pusher
        self._assigner = assigner
        self._merged: dict[str, MergedFile] = {}
        self._changed = WakeupListener(paths.merged_files_socket)
        self._unassigned: dict[int, str] = {}
        self._wake = asyncio.Event()
        self._refresh_lock = asyncio.Lock()

    def update_agent(self, agent: Agent) -> None:
        """Compare the files of an agent with those of its groups; queue a push if they differ.

        The agents of a group without a merged file count as synced.
        """
        merged = self._merged.get(agent.delivery.group) if agent.delivery.group else None
        differs = merged is not None and agent.delivery.merged_sum != merged.sum
        status: ConfigStatus = "not synced" if differs else "synced"
        if agent.delivery.config_status not in (None, status):
            self._states.add(ConfigStatusChange(agent.number, status))
        agent.delivery.config_status = status
        if merged is None or agent.delivery.group is None:
            return
        if differs:
            self._pusher.want(agent, agent.delivery.group, merged.sum)
        else:
            agent.delivery.last_push = None

    def assign(self, agent: Agent) -> None:
        """Request the first group of an agent. Its files are compared when the answer is there."""
        if not agent.delivery.assigning:
            agent.delivery.assigning = True
            self._unassigned[agent.number] = agent.delivery.merged_sum or ""
            self._wake.set()

    async def refresh(self, also: Iterable[str] = ()) -> None:
        """Check the merged files of the groups in use and of ``also``; update the agents of those that changed."""
        async with self._refresh_lock:
            wanted = {DEFAULT_GROUP, *self._agents.groups(), *also}
            found = await asyncio.to_thread(self._read, wanted, self._merged)
            changed = {joined for joined in wanted if found.get(joined) != self._merged.get(joined)}
            self._merged = found
        if changed:
            self.update_agents(agent for agent in self._agents.by_number.values() if agent.delivery.group in changed)

    def update_agents(self, agents: Iterable[Agent]) -> None:
        """Update those agents that have sent the md5 of their files."""
        for agent in list(agents):
            if agent.delivery.config_status is not None:
                self.update_agent(agent)

    async def watch(self) -> None:
        """Refresh when a writer of merged files notifies, and every ``SAFETY_SECONDS``; does not return."""
        try:
            while True:
                await self._changed.wait(SAFETY_SECONDS)
                await self.refresh()
        finally:
            self._changed.close()

    async def run_assignments(self) -> None:
        """Assign first groups in batches; a request that fails is repeated. Does not return."""
        waiting = False  # a failure was logged
        while True:
            await self._wake.wait()
            await asyncio.sleep(GATHER_SECONDS)
            batch = dict(list(self._unassigned.items())[:MAX_ASSIGNED])
            if not batch:
                self._wake.clear()
                continue
            try:
                groups = await self._assigner(batch)
            except (SecmonError, SQLAlchemyError) as error:
                if not waiting:
                    log.warning("%d agents wait for their first group: %s", len(self._unassigned), error)
                waiting = True
                await asyncio.sleep(RETRY_SECONDS)
                continue
            waiting = False
            for number in batch:
                del self._unassigned[number]
            await self._assigned(batch, groups)

    async def _assigned(self, batch: Iterable[int], groups: Mapping[int, str]) -> None:
        await self.refresh(set(groups.values()))
        for number in batch:
            agent = self._agents.by_number.get(number)
            if agent is None:
                continue
            agent.delivery.assigning = False
            if agent.delivery.group is None and number in groups:
                agent.delivery.group = groups[number]
            self.update_agents([agent])

    def _read(self, wanted: Iterable[str], known: Mapping[str, MergedFile]) -> dict[str, MergedFile]:
        found: dict[str, MergedFile] = {}
        for joined in wanted:
            merged = self._read_one(joined, known.get(joined))
            if merged is not None:
                found[joined] = merged
        return found

    def _read_one(self, joined: str, known: MergedFile | None) -> MergedFile | None:
        path = merged_path(self._paths, joined)
        try:
            status = path.stat()
            signature = (status.st_ino, status.st_size, status.st_mtime_ns)
            if known is not None and known.signature == signature:
                return known
            return MergedFile(signature, hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest())
        except FileNotFoundError:
            return None
        except OSError as error:
            log.error("Shared files cannot be read: %s", error)
            return known
