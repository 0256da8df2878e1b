"""Shared files of groups: which an agent should have, whether it has them; its first group (agent-link.md 7.5, 7.6)."""

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
"""Between two looks at the merged files of the groups in use, when no notification comes."""
MAX_ASSIGNED = 500
"""Agents that get their first group in one step."""
GATHER_SECONDS = 0.1
"""Wait for others before a step: it costs little more for many than for one."""
RETRY_SECONDS = 0.5

Assigner = Callable[[Mapping[int, str]], Awaitable[Mapping[int, str]]]
"""Gives agents their first group: by number, the sum of the files each has, to the names joined by commas.

Agents that do not exist are left out of the answer. Raises SecmonError when the master cannot be asked.
"""


class Merged(NamedTuple):
    """A merged file: a signature that changes with it, and its md5."""

    signature: tuple[int, int, int]
    sum: str


class SharedFiles:
    """Knows the merged file of each combination of groups in use."""

    def __init__(
        self, paths: Paths, agents: AgentTable, states: StateQueue, pusher: FilePusher, assigner: Assigner
    ) -> None:
        self._paths = paths
        self._agents = agents
        self._states = states
        self._pusher = pusher
        self._assigner = assigner
        self._merged: dict[str, Merged] = {}
        self._changed = WakeupListener(paths.merged_files_socket)
        self._unassigned: dict[int, str] = {}
        self._wake = asyncio.Event()
        self._looking = asyncio.Lock()

    def judge(self, agent: Agent) -> None:
        """Compare what an agent has with what its group has; send the files if they differ.

        A group that has no merged file here, or not yet, asks nothing of its agents.
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
        """Request the first group of an agent; its files are compared when the answer has arrived."""
        if not agent.delivery.assigning:
            agent.delivery.assigning = True
            self._unassigned[agent.number] = agent.delivery.merged_sum or ""
            self._wake.set()

    async def look(self, also: Iterable[str] = ()) -> None:
        """Look at the merged files of the groups in use and of ``also``, and judge the agents of those that changed."""
        async with self._looking:
            wanted = {DEFAULT_GROUP, *self._agents.groups(), *also}
            found = await asyncio.to_thread(self._read, wanted, self._merged)
            changed = {joined for joined in wanted if found.get(joined) != self._merged.get(joined)}
            self._merged = found
        if changed:
            self.judge_all(agent for agent in self._agents.by_number.values() if agent.delivery.group in changed)

    def judge_all(self, agents: Iterable[Agent]) -> None:
        """Judge those that have said what they have."""
        for agent in list(agents):
            if agent.delivery.config_status is not None:
                self.judge(agent)

    async def watch(self) -> None:
        """Look whenever the writer of merged files says so, and now and then in case it could not; does not return."""
        try:
            while True:
                await self._changed.wait(SAFETY_SECONDS)
                await self.look()
        finally:
            self._changed.close()

    async def run_assignments(self) -> None:
        """Give first groups to agents, many at a time; an answer that does not come is asked for again."""
        waiting = False  # and said so
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
        await self.look(set(groups.values()))
        for number in batch:
            agent = self._agents.by_number.get(number)
            if agent is None:
                continue
            agent.delivery.assigning = False
            if agent.delivery.group is None and number in groups:
                agent.delivery.group = groups[number]
            self.judge_all([agent])

    def _read(self, wanted: Iterable[str], known: Mapping[str, Merged]) -> dict[str, Merged]:
        found: dict[str, Merged] = {}
        for joined in wanted:
            merged = self._read_one(joined, known.get(joined))
            if merged is not None:
                found[joined] = merged
        return found

    def _read_one(self, joined: str, known: Merged | None) -> Merged | None:
        path = merged_path(self._paths, joined)
        try:
            status = path.stat()
            signature = (status.st_ino, status.st_size, status.st_mtime_ns)
            if known is not None and known.signature == signature:
                return known
            return Merged(signature, hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest())
        except FileNotFoundError:
            return None
        except OSError as error:
            log.error("Shared files cannot be read: %s", error)
            return known
