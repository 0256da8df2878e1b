"""Counters of a port, which daemons count alike."""

from secmon.operations.metrics.metric import Metric, counter, gauge


def port_metrics(source: str, port: str) -> tuple[Metric, ...]:
    """``source``: what the names of the counters begin with; ``port``: the label."""
    return (
        gauge(f"{source}.connections.open", "connections", "Open connections at a port.", port=port),
        counter(f"{source}.connections.refused", "connections_refused", "Connections for which there was no room.",
                port=port),
        counter(f"{source}.connections.evicted", "connections_evicted", "Connections closed in favour of others.",
                port=port),
    )  # fmt: skip
