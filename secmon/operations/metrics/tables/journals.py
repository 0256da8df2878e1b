"""Counters of a journal, which their writers count alike."""

from secmon.operations.metrics.metric import Metric, counter, gauge

END = "journal_events"
"""Name of the metric whose value is the number of a journal's next event."""


def journal_metrics(source: str, journal: str) -> tuple[Metric, ...]:
    """``source``: what the names of the counters begin with; ``journal``: the label."""
    return (
        gauge(f"{source}.bytes", "journal_bytes", "Size of a journal.", journal=journal),
        counter(f"{source}.events", END, "Events appended to a journal since it was made.", journal=journal),
        counter(f"{source}.lost", "journal_events_lost", "Events deleted unread to make room.", journal=journal),
        gauge(f"{source}.full", "journal_full", "Whether a reader is so far behind that the writer waits.",
              journal=journal),
    )  # fmt: skip
