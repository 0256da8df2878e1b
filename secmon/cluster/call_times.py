"""How long the calls of clients took, by operation and status."""

from prometheus_client import Histogram, disable_created_metrics

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds, in seconds. The longest is the usual time limit of a request."""

disable_created_metrics()  # type: ignore[no-untyped-call] # a further line for each operation and status


def new_call_times() -> Histogram:
    """Of one process. Observed in seconds, with an operation's id or ``none``, and the status of the answer."""
    return Histogram(
        "secmon_api_request_duration_seconds",
        "Time until the answers of requests to the API began, by operation and status; none: no such path or method.",
        ("operation", "status"),
        buckets=BUCKETS,
        registry=None,
    )
