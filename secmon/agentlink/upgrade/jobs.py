"""The upgrades of a node's agents: takes tasks from the task source, and sends the packages to the agents."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from secmon.agentlink.upgrade.dialects import dialect_of
from secmon.agentlink.upgrade.failures import NOT_STARTED, UpgradeFailure
from secmon.agentlink.upgrade.packages import Packages
from secmon.agentlink.upgrade.task_source import UNAVAILABLE, TaskSource
from secmon.agentlink.upgrade.transfer import OPEN_PAUSE, Transfer
from secmon.agents.names import padded
from secmon.agents.registry.entries import pick
from secmon.agents.registry.schema import agents
from secmon.agents.registry.store import AgentStore
from secmon.agents.tasks.lifecycle import Job
from secmon.agents.upgrade_targets import REPORT_SINCE, Candidate
from secmon.agents.wakeups import WakeupListener
from secmon.agents.wire.version import compare
from secmon.cluster.node import AgentLink
from secmon.common.clock import Clock
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError, os_text
from secmon.config.upgrades import UpgradeSettings

log = logging.getLogger("secmon.modulesd.upgrades")

T = TypeVar("T")

_COLUMNS = tuple(agents.c[name] for name in Candidate._fields)


_STOP_SECONDS = 2.0


class Timing(NamedTuple):
    """Seconds between things that are done again."""

    poll: float = 10.0
    """Between two polls for new tasks without a wake-up."""
    renew: float = 60.0
    """Renewal of tasks in progress; far below the time after which a task times out."""
    retry: float = 1.0
    """First pause after the task source could not be reached; later ones are longer."""
    longest: float = 30.0
    patience: float = 30.0
    """Time without the task source before that is logged: daemons of a node start one after the other."""
    open: float = OPEN_PAUSE
    """Between two attempts to open the file on an agent."""


class Upgrades:
    """Runs as many tasks at once as the settings allow. Tasks that waited when the node stopped are cancelled."""

    def __init__(
        self,
        task_source: TaskSource,
        link: AgentLink,
        packages: Packages,
        store: AgentStore,
        settings: UpgradeSettings,
        *,
        wakeups: WakeupListener,
        clock: Clock,
        counters: Counters,
        timing: Timing = Timing(),  # noqa: B008 - immutable
    ) -> None:
        """``store`` has the agents of this node; ``wakeups`` announce new tasks."""
        self._wakeups = wakeups
        self._task_source, self._link, self._packages, self._store = task_source, link, packages, store
        self._settings, self._timing = settings, timing
        self._clock, self._counters = clock, counters
        self._working: dict[int, asyncio.Task[None]] = {}
        self._renewed = 0.0

    async def run(self) -> None:
        """Run tasks; does not return. Cancelling it makes the tasks in progress fail."""
        started = self._clock.monotonic()
        cancelled = await self._retry(lambda: self._task_source.cancel(self._clock.monotonic() - started))
        if cancelled:
            log.warning("%d upgrades that waited for this node's restart are cancelled", cancelled)
        try:
            while True:
                await self._look()
                await self._wakeups.wait(self._timing.poll)
        finally:
            self._wakeups.close()
            await self._stop()

    async def _stop(self) -> None:
        """Cancel the tasks in progress and report them as failed; those that cannot be reported at once time out."""
        for task in self._working.values():
            task.cancel()
        await asyncio.gather(*self._working.values(), return_exceptions=True)
        failure = str(UpgradeFailure(NOT_STARTED, "the node was restarted meanwhile"))
        with suppress(TimeoutError, *UNAVAILABLE):
            async with asyncio.timeout(_STOP_SECONDS):
                for number, task in self._working.items():
                    if task.cancelled():
                        await self._task_source.finish(number, failure)
        self._working.clear()

    async def _look(self) -> None:
        """Start new tasks as far as there is room; renew those in progress."""
        for number, task in list(self._working.items()):
            if task.done():
                del self._working[number]
                task.result()  # an unexpected error ends the module
        self._counters.set("upgrades.under_way", len(self._working))
        if self._working and self._clock.monotonic() - self._renewed >= self._timing.renew:
            self._renewed = self._clock.monotonic()
            await self._retry(lambda: self._task_source.renew(list(self._working)))
        free = self._settings.at_once - len(self._working) if self._settings.enabled else 0
        if free > 0:
            for job in await self._retry(lambda: self._task_source.take(free)):
                task = self._working[job.task_id] = asyncio.create_task(self._work(job), name=f"upgrade {job.task_id}")
                task.add_done_callback(lambda _: self._wakeups.set())  # there is room for the next task

    async def _work(self, job: Job) -> None:
        """Run one task until only the agent can report its result."""
        agent = padded(job.agent_id)
        try:
            await self._send_package(job)
        except UpgradeFailure as error:
            failure: str | None = str(error)
        except (SecmonError, SQLAlchemyError, OSError) as error:
            failure = str(UpgradeFailure(NOT_STARTED, _reason(error)))
        else:
            failure = None
        if failure is not None:
            self._counters.add("upgrades.failed")
            log.error("Upgrade of agent %s (task %d) failed: %s", agent, job.task_id, failure)
        else:
            self._counters.add("upgrades.sent")
            log.info("Agent %s has its package (task %d)", agent, job.task_id)
        target = job.work.version
        if failure is not None or (target is not None and compare(target, REPORT_SINCE) < 0):
            await self._retry(lambda: self._task_source.finish(job.task_id, failure))

    async def _send_package(self, job: Job) -> None:
        """Raises UpgradeFailure, SecmonError, SQLAlchemyError, OSError."""
        agent = await asyncio.to_thread(self._agent, job.agent_id)
        package = await self._packages.find(agent, job.work)
        windows = agent.os_platform == "windows"
        installer = job.work.installer or ("upgrade.bat" if windows else "upgrade.sh")
        transfer = Transfer(
            self._link,
            agent.id,
            dialect_of(agent.version),
            package,
            chunk_size=self._settings.chunk_size,
            open_pause=self._timing.open,
        )
        await transfer.run(installer)

    def _agent(self, number: int) -> Candidate:
        with self._store.read() as connection:
            found = [Candidate(*row) for row in pick(connection, _COLUMNS, [number])]
        if not found:
            raise UpgradeFailure(NOT_STARTED, "the agent is not known here")
        return found[0]

    async def _retry(self, question: Callable[[], Awaitable[T]]) -> T:
        """The task source's answer, retried until it can be reached; logged once when that takes long."""
        pause, begun, said = self._timing.retry, self._clock.monotonic(), False
        while True:
            try:
                return await question()
            except UNAVAILABLE as error:
                if not said and self._clock.monotonic() - begun >= self._timing.patience:
                    said = True
                    log.warning("The tasks of upgrades cannot be reached: %s", _reason(error))
                await asyncio.sleep(pause)
                pause = min(self._timing.longest, pause * 2)


def _reason(error: Exception) -> str:
    match error:
        case SecmonError():
            return error.message
        case OSError():
            return os_text(error)
    return str(error)
