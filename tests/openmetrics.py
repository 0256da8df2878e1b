"""OpenMetrics text as the client library's own parser reads it."""

from collections.abc import Mapping

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families


def parsed(text: str) -> Mapping[str, Metric]:
    """Metrics by name. Raises ValueError for text that is not OpenMetrics."""
    return {each.name: each for each in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]
