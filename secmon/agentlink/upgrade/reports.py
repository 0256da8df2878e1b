"""What agents report on their upgrades, and the answer that ends it (agent-link.md 10.6)."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

import msgspec

from secmon.agentlink.upgrade.dialects import CLEAR
from secmon.agentlink.upgrade.failures import REPORTED, TEXTS
from secmon.agentlink.upgrade.task_source import UNAVAILABLE, TaskSource
from secmon.agents.link.wire import Report
from secmon.agents.names import padded
from secmon.cluster.node import AgentLink
from secmon.common.counters import Counters
from secmon.common.errors import SecmonError

log = logging.getLogger("secmon.modulesd.upgrades")

AT_ONCE = 64
RETRY_SECONDS = 1.0


class ReportingLink(AgentLink, Protocol):
    """A link that publishes the reports of its agents."""

    def reports(self) -> AsyncGenerator[Report, None]:
        """Reports from now on, without end. Raises 1014 when the link is gone."""


class _Parameters(msgspec.Struct):
    error: int
    message: str = ""


class _Body(msgspec.Struct):
    command: str
    parameters: _Parameters


class ReportListener:
    """Writes agents' reports to the task source. Agents repeat theirs until they are answered."""

    def __init__(
        self, task_source: TaskSource, link: ReportingLink, *, counters: Counters, retry_seconds: float = RETRY_SECONDS
    ) -> None:
        self._task_source, self._link, self._counters = task_source, link, counters
        self._retry = retry_seconds
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        """Handle reports; does not return."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    async with aclosing(self._link.reports()) as reports:
                        async for report in reports:
                            await self._turns.acquire()
                            group.create_task(self._take(report))
                except SecmonError as error:
                    log.debug("no reports: %s", error.message)
                await asyncio.sleep(self._retry)

    async def _take(self, report: Report) -> None:
        """Write one report, then clear it on the agent. Late and repeated reports are cleared too."""
        try:
            agent, error = padded(report.agent), _error(report.payload)
            changed = await self._task_source.report(report.agent, error)
            if changed:
                self._counters.add("upgrades.done" if error is None else "upgrades.failed")
                log.info("Agent %s: %s", agent, error or "upgraded")
            await self._link.request(report.agent, *CLEAR)
        except msgspec.MsgspecError as error:
            log.warning("The report of agent %s on its upgrade cannot be read: %s", padded(report.agent), error)
        except UNAVAILABLE as error:  # the agent repeats its report
            log.warning("The report of agent %s could not be stored: %s", padded(report.agent), error)
        finally:
            self._turns.release()


def _error(payload: bytes) -> str | None:
    """The text for the task; None for success. Raises MsgspecError."""
    body = msgspec.json.decode(payload.rstrip(b"\0"), type=_Body)
    if body.command != "upgrade_update_status":
        raise msgspec.ValidationError(f"command {body.command[:64]!r}")
    return TEXTS[REPORTED] if body.parameters.error else None
