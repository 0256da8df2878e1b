"""Counters of ``secmon-remoted``."""

from secmon.operations.metrics.metric import counter, gauge
from secmon.operations.metrics.tables.journals import journal_metrics
from secmon.operations.metrics.tables.ports import port_metrics

_RECEIVED, _SENT = "metrics.messages.received_breakdown", "metrics.messages.sent_breakdown"

METRICS = (
    *port_metrics("link.accept", "agents"),
    *journal_metrics("link.journal", "agents"),
    counter("metrics.bytes.received", "link_received_bytes", "Bytes that agents have sent."),
    counter("metrics.bytes.sent", "link_sent_bytes", "Bytes sent to agents."),
    counter("metrics.keys_reload_count", "link_key_reloads", "Times that the keys of agents were read again."),
    gauge("metrics.tcp_sessions", "link_tcp_sessions", "Open TCP connections of agents."),
    counter(f"{_RECEIVED}.event", "link_messages_received", "Messages of agents, by kind.", kind="event"),
    counter(f"{_RECEIVED}.control_breakdown.*", "link_messages_received", kind="*"),
    counter(f"{_RECEIVED}.ping", "link_messages_received", kind="ping"),
    counter(f"{_RECEIVED}.unknown", "link_messages_received", kind="unknown"),
    counter(f"{_RECEIVED}.dequeued_after", "link_messages_after_close", "Messages read after their connection was"
            " closed."),
    counter(f"{_RECEIVED}.discarded", "link_events_dropped", "Events dropped because the journal is full or the"
            " connection brought more than its share."),
    counter(f"{_SENT}.discarded", "link_messages_undelivered", "Messages that an agent could not be sent."),
    counter(f"{_SENT}.*", "link_messages_sent", "Messages sent to agents, by kind.", kind="*"),
    gauge("link.agents", "link_agents", "Agents whose keys this node knows."),
    counter("link.counters_back", "link_counters_back", "Connections that began with a used message counter."),
    counter("link.evicted", "link_connections_evicted", "Connections closed because they did not authenticate in time,"
            " or because their agent had too many."),
    gauge("link.held", "link_connections_held", "Connections that are not read for now."),
    counter("link.holds", "link_holds", "Times that a connection was not read for a while."),
    counter("link.dropped", "link_tcp_events_dropped", "Dropped events that came over TCP."),
    gauge("link.pushes_waiting", "link_pushes_waiting", "Agents that wait for their group's files."),
    gauge("link.requests", "link_requests_in_flight", "Requests to agents without an answer yet."),
    counter("link.syslog", "link_syslog_lines", "Lines of syslog senders."),
    counter("link.key_requests.handed", "link_missing_keys_handed", "Missing keys of agents that were handed on."),
    counter("link.key_requests.dropped", "link_missing_keys_dropped", "Missing keys of agents that were dropped."),
)  # fmt: skip
