"""All metrics of a node, read for several scrapers at once."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from secmon.cluster.node import Node
from secmon.common.errors import SecmonError
from secmon.common.readings import RecentReading
from secmon.operations.metrics.daemon_counters import Sample, samples, unknown
from secmon.operations.metrics.exposition import render
from secmon.operations.metrics.metric import Metric
from secmon.operations.metrics.node_figures import node_samples
from secmon.operations.metrics.tables.journals import END
from secmon.operations.metrics.tables.node import DAEMON_UP, HANGS, RESTARTS, UNKNOWN

RECENT_SECONDS = 1.0
"""How old the figures may be that a scraper gets."""
DAEMON_SECONDS = 2.0
"""Time for a daemon to answer; without an answer it is shown as down."""
SUPERVISOR = "secmon-supervisor"


class _Daemon(NamedTuple):
    name: str
    restarts: int
    hangs: int
    counters: Mapping[str, Any] | None
    """None: no answer."""


class NodeMetrics:
    """Implements ``cluster.node.MetricsSource`` for the process that answers clients."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._text = RecentReading(self._read, RECENT_SECONDS)

    async def text(self) -> bytes:
        """See ``cluster.node.MetricsSource``."""
        return await self._text.value()

    async def _read(self) -> bytes:
        daemons = await self._daemons()
        return await asyncio.to_thread(self._render, daemons)

    async def _daemons(self) -> list[_Daemon]:
        """The supervisor and its daemons, all asked at the same time; none when the supervisor does not answer."""
        try:
            async with asyncio.timeout(DAEMON_SECONDS):
                status = await self._node.services.control.supervisor_status()
        except (SecmonError, TimeoutError):
            return [_Daemon(SUPERVISOR, 0, 0, None)]
        processes = status["processes"]
        answers = await asyncio.gather(*(self._counters(each["daemon"]) for each in processes))
        supervisor = {name: status[name] for name in ("task_restarts", "process")}
        return [
            _Daemon(SUPERVISOR, 0, 0, supervisor),
            *(
                _Daemon(each["daemon"], each["restarts"], each["hangs"], answer)
                for each, answer in zip(processes, answers, strict=True)
            ),
        ]

    async def _counters(self, daemon: str) -> Mapping[str, Any] | None:
        try:
            async with asyncio.timeout(DAEMON_SECONDS):
                return await self._node.services.control.counters(daemon)
        except (SecmonError, TimeoutError):
            return None

    def _render(self, daemons: list[_Daemon]) -> bytes:
        shown = [sample for daemon in daemons for sample in _of_daemon(daemon)]
        ends = {each.labels["journal"]: int(each.value) for each in shown if each.metric.name == END}
        shown += node_samples(self._node, ends)
        return render(shown, self._node.call_times)


def _of_daemon(daemon: _Daemon) -> Iterator[Sample]:
    name, counters = daemon.name, daemon.counters
    yield _sample(DAEMON_UP, name, counters is not None)
    yield _sample(RESTARTS, name, daemon.restarts)
    yield _sample(HANGS, name, daemon.hangs)
    if counters is None:
        return
    yield from samples(name, counters)
    yield _sample(UNKNOWN, name, len(unknown(name, counters)))


def _sample(metric: Metric, daemon: str, value: float) -> Sample:
    return Sample(metric, {"daemon": daemon}, value)
