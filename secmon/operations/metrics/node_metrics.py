"""All metrics of a node, read for several scrapers at once."""

import asyncio

from secmon.cluster.node import Node
from secmon.common.readings import RecentReading
from secmon.operations.metrics.daemon_answers import DaemonAnswer, all_samples, daemon_answers
from secmon.operations.metrics.exposition import render

RECENT_SECONDS = 1.0
"""How old the figures may be that a scraper gets."""


class NodeMetrics:
    """Implements ``cluster.node.MetricsSource`` for the process that answers clients."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._text = RecentReading(self._read, RECENT_SECONDS)

    async def text(self) -> bytes:
        """See ``cluster.node.MetricsSource``."""
        return await self._text.value()

    async def _read(self) -> bytes:
        return await asyncio.to_thread(self._render, await daemon_answers(self._node))

    def _render(self, answers: list[DaemonAnswer]) -> bytes:
        return render(all_samples(self._node, answers), self._node.call_times)
