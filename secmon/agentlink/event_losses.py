"""Events of agents that found no room: what the log says of them."""

import asyncio
import logging
from collections import Counter

from secmon.agentlink.counters import LinkCounts

REPORT_SECONDS = 60.0
_NAMED = 5
"""Agents that a report names."""


class EventLosses:
    """Counts events dropped, and says so once a minute."""

    def __init__(self, log: logging.Logger, counts: LinkCounts) -> None:
        self._log = log
        self._counts = counts
        self._lost: Counter[str] = Counter()

    def add(self, agent: str) -> None:
        """An event of the agent with this id is dropped."""
        self._counts.dropped += 1
        self._lost[agent] += 1

    def report(self) -> None:
        """One line on what was lost since the last one, if anything was."""
        if not self._lost:
            return
        lost, self._lost = self._lost, Counter()
        most = ", ".join(f"{agent} ({count})" for agent, count in lost.most_common(_NAMED))
        self._log.warning(
            "%d events of %d agents were dropped because the analysis is behind; most of agents %s",
            lost.total(),
            len(lost),
            most,
        )

    async def run(self) -> None:
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            self.report()
