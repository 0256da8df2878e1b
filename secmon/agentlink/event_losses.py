"""Log lines about dropped events of agents."""

import asyncio
import logging
from collections import Counter

from secmon.agentlink.counters import LinkCounts

REPORT_SECONDS = 60.0
_NAMED = 5
"""Agents that a report names."""


class EventLosses:
    """Counts dropped events, and logs their number once a minute."""

    def __init__(self, log: logging.Logger, counts: LinkCounts) -> None:
        self._log = log
        self._counts = counts
        self._lost: Counter[str] = Counter()

    def add(self, agent: str) -> None:
        """Count a dropped event of the agent with this id."""
        self._counts.dropped += 1
        self._lost[agent] += 1

    def report(self) -> None:
        """Log the losses since the last report, if there are any."""
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
