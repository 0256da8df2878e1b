"""Counters of ``secmon-apid``."""

from secmon.operations.metrics.metric import counter, gauge
from secmon.operations.metrics.tables.ports import port_metrics

METRICS = (
    *port_metrics("api", "api"),
    counter("api.connections.timed_out", "connections_timed_out", "Connections closed for a time limit.", port="api"),
    counter("api.handshakes.failed", "tls_handshakes_failed", "TLS handshakes that failed.", port="api"),
    counter("api.requests", "api_requests", "Requests that have begun."),
    counter("api.console.requests", "console_requests", "Requests for files of the console."),
    gauge("api.streams", "api_streams", "Open streams of alerts."),
    counter("api.streams.refused", "api_streams_refused", "Streams of alerts for which there was no room."),
    gauge("api.requests.in_flight", "api_requests_in_flight", "Requests without an answer yet."),
    counter("api.requests.abandoned", "api_requests_abandoned", "Requests whose client left before its answer."),
    counter("api.requests.slow", "api_requests_slow", "Requests of users whose answer was late: secmon requests slow."),
    counter("api.refused.rate", "api_requests_refused", "Requests refused unread, by reason.", reason="rate"),
    counter("api.refused.blocked_address", "api_requests_refused", reason="blocked_address"),
    counter("api.refused.framing", "api_requests_refused", reason="framing"),
    counter("api.logins.failed", "api_logins_failed", "Logins with a wrong name or password."),
    counter("api.logins.unshared", "api_login_failures_unshared", "Failed logins that other nodes do not know of."),
    counter("api.storage_errors", "api_storage_errors", "Requests that failed because a store did."),
    counter("api.log.write_errors", "api_log_entries_lost", "Entries of the log of requests that were not written."),
    counter("api.log.rotation_errors", "api_log_rotations_failed", "Rotations of the log of requests that failed."),
)
