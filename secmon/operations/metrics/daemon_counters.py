"""The counters of daemons as metrics: every counter has an entry in ``tables/``, or here, with why it has none."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from secmon.operations.metrics.metric import Metric
from secmon.operations.metrics.tables.all import OF_DAEMON, OF_SEVERAL_DAEMONS

NOT_SHOWN: Mapping[str, str] = {
    "uptime": "process_start_time_seconds",
    "timestamp": "the time of the answer",
    "api.responses.*": "api_request_duration_seconds, by status",
    "inventory.started": "process_start_time_seconds",
    "metrics.queues.*": "analysis_queue_usage_ratio and journal_bytes: the others do not exist here",
    "metrics.eps.*": "nothing is dropped for the configured limit",
    "metrics.messages.received_breakdown.control": "link_messages_received, by kind",
    "analysis.outputs.written.*": "analysis_records_written",
    "analysis.positions.*": "journal_lag_events",
    "analysis.unread_bytes.*": "journal_lag_bytes",
    "alerts.sequence": "alerts_indexed",
    "inventory.position": "journal_lag_events",
    "inventory.unread_bytes": "journal_lag_bytes",
    "inventory.store_bytes": "store_bytes",
}
"""Counters that are no metric of their own, and where the same is seen."""


class Sample(NamedTuple):
    """The value of a metric with the values of its labels."""

    metric: Metric
    labels: Mapping[str, str]
    value: float


def samples(daemon: str, counters: Mapping[str, Any]) -> Iterator[Sample]:
    """What the counters of ``daemon`` show. A counter without an entry is left out; one that was never counted is 0."""
    counted = set()
    for source, value in flat(counters):
        found = entry(daemon, source)
        if found is not None:
            metric, labels = found
            counted.add(source)
            yield Sample(metric, labels, value * metric.factor)
    for metric in OF_DAEMON.get(daemon, ()):
        if metric.kind == "counter" and "*" not in metric.source and metric.source not in counted:
            yield Sample(metric, metric.labels, 0)


def unknown(daemon: str, counters: Mapping[str, Any]) -> list[str]:
    """Counters that have no entry anywhere."""
    return [source for source, _ in flat(counters) if entry(daemon, source) is None and not is_left_out(source)]


def flat(counters: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers in ``counters`` by dotted names; those in lists are counted from 0."""
    for name, value in counters.items():
        if isinstance(value, list):
            value = {str(number): each for number, each in enumerate(value)}
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        elif isinstance(value, int | float):
            yield f"{prefix}{name}", float(value)


@lru_cache(maxsize=4096)
def entry(daemon: str, source: str) -> tuple[Metric, Mapping[str, str]] | None:
    """The metric of a counter of ``daemon``, and its labels; None without an entry."""
    for metrics, common in ((OF_DAEMON.get(daemon, ()), {}), (OF_SEVERAL_DAEMONS, {"daemon": daemon})):
        for metric in sorted(metrics, key=_is_pattern):
            found = _pattern(metric.source).fullmatch(source)
            if found is not None:
                return metric, {**common, **_labels(metric, found.groups())}
    return None


@lru_cache(maxsize=4096)
def is_left_out(source: str) -> bool:
    """Whether the counter is one that :data:`NOT_SHOWN` names."""
    return any(_pattern(each).fullmatch(source) for each in NOT_SHOWN)


def _is_pattern(metric: Metric) -> bool:
    return "*" in metric.source


def _labels(metric: Metric, texts: Sequence[str]) -> Mapping[str, str]:
    text = "".join(texts).replace("_breakdown", "")  # a word of the public trees that says nothing
    return {name: text if value == "*" else value for name, value in metric.labels.items()}


@cache
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(re.escape(source).replace(r"\*", "(.+)"))
