"""Counters of ``secmon-authd``."""

from secmon.operations.metrics.metric import counter
from secmon.operations.metrics.tables.ports import port_metrics

METRICS = (
    *port_metrics("authd", "enrolment"),
    counter("authd.handshake_failures", "tls_handshakes_failed", port="enrolment"),
    counter("authd.connections", "enrolment_connections", "Connections at the enrolment port."),
    counter("authd.accepted", "enrolments", "Requests to enrol, by result.", result="accepted"),
    counter("authd.refused", "enrolments", result="refused"),
    counter("authd.silent_connections", "enrolment_connections_failed", "Connections that led to no request, by"
            " reason.", reason="silent"),
    counter("authd.broken_connections", "enrolment_connections_failed", reason="broken"),
    counter("authd.wrong_certificates", "enrolment_connections_failed", reason="certificate"),
    counter("authd.unexpected_errors", "enrolment_connections_failed", reason="unexpected"),
)  # fmt: skip
