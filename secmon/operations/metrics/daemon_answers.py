"""The counters of all daemons of a node, asked at the same time, and the figures that they show."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from secmon.cluster.node import Node
from secmon.common.errors import SecmonError
from secmon.operations.metrics.daemon_counters import Sample, samples, unknown
from secmon.operations.metrics.metric import Metric
from secmon.operations.metrics.node_figures import node_samples
from secmon.operations.metrics.tables.journals import END
from secmon.operations.metrics.tables.node import DAEMON_UP, HANGS, RESTARTS, UNKNOWN

DAEMON_SECONDS = 2.0
"""Time for a daemon to answer; without an answer it is shown as down."""
SUPERVISOR = "secmon-supervisor"


class DaemonAnswer(NamedTuple):
    """How often a daemon was started again, and its counters; None: no answer."""

    name: str
    restarts: int
    hangs: int
    counters: Mapping[str, Any] | None


async def daemon_answers(node: Node) -> list[DaemonAnswer]:
    """Of the supervisor and its daemons; of the supervisor alone when it does not answer."""
    try:
        async with asyncio.timeout(DAEMON_SECONDS):
            status = await node.services.control.supervisor_status()
    except (SecmonError, TimeoutError):
        return [DaemonAnswer(SUPERVISOR, 0, 0, None)]
    processes = status["processes"]
    answers = await asyncio.gather(*(_counters(node, each["daemon"]) for each in processes))
    supervisor = {**status["counters"], **{name: status[name] for name in ("task_restarts", "process")}}
    return [
        DaemonAnswer(SUPERVISOR, 0, 0, supervisor),
        *(
            DaemonAnswer(each["daemon"], each["restarts"], each["hangs"], answer)
            for each, answer in zip(processes, answers, strict=True)
        ),
    ]


async def _counters(node: Node, daemon: str) -> Mapping[str, Any] | None:
    try:
        async with asyncio.timeout(DAEMON_SECONDS):
            return await node.services.control.counters(daemon)
    except (SecmonError, TimeoutError):
        return None


def all_samples(node: Node, answers: list[DaemonAnswer]) -> list[Sample]:
    """Those of the daemons and of the node itself. Blocks."""
    shown = [sample for answer in answers for sample in _of_daemon(answer)]
    ends = {each.labels["journal"]: int(each.value) for each in shown if each.metric.name == END}
    return shown + node_samples(node, ends)


def _of_daemon(answer: DaemonAnswer) -> Iterator[Sample]:
    name, counters = answer.name, answer.counters
    yield _sample(DAEMON_UP, name, counters is not None)
    yield _sample(RESTARTS, name, answer.restarts)
    yield _sample(HANGS, name, answer.hangs)
    if counters is None:
        return
    yield from samples(name, counters)
    yield _sample(UNKNOWN, name, len(unknown(name, counters)))


def _sample(metric: Metric, daemon: str, value: float) -> Sample:
    return Sample(metric, {"daemon": daemon}, value)
