"""Samples as OpenMetrics text."""

from collections.abc import Iterable, Iterator

from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.openmetrics.exposition import generate_latest

from secmon.operations.metrics.daemon_counters import Sample
from secmon.operations.metrics.metric import PREFIX, Metric
from secmon.operations.metrics.tables.all import HELP

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_UNITS = ("bytes", "seconds", "ratio")


def render(samples: Iterable[Sample], *histograms: Histogram) -> bytes:
    """The whole answer. Takes milliseconds: not for an event loop."""
    families = [*_families(samples), *(family for each in histograms for family in each.collect())]
    text: bytes = generate_latest(_Collected(families))  # type: ignore[no-untyped-call]
    return text


class _Collected:
    """What the library takes for a registry."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Family]:
        yield from self._families


def _families(samples: Iterable[Sample]) -> list[Family]:
    """By name; samples of the same metric are together, as OpenMetrics wants."""
    found: dict[str, Family] = {}
    for metric, labels, value in samples:
        family = found.get(metric.name) or found.setdefault(metric.name, _family(metric))
        name = f"{family.name}_total" if metric.kind == "counter" else family.name
        family.add_sample(name, dict(labels), value)
    return [found[name] for name in sorted(found)]


def _family(metric: Metric) -> Family:
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    unit = next((each for each in _UNITS if metric.name.endswith(f"_{each}")), "")
    return kind(f"{PREFIX}{metric.name}", HELP[metric.name], labels=(), unit=unit)
