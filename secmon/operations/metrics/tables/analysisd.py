"""Counters of ``secmon-analysisd``."""

from secmon.operations.metrics.metric import counter, gauge
from secmon.operations.metrics.tables.journals import journal_metrics

METRICS = (
    *journal_metrics("analysis.journal", "local"),
    *journal_metrics("analysis.responses", "responses"),
    counter("metrics.bytes.received", "analysis_received_bytes", "Bytes of the events read from the journals."),
    counter("metrics.events.received", "analysis_events_received", "Events read from the journals."),
    counter("metrics.events.processed", "analysis_events_processed", "Events that the rules were applied to."),
    counter("metrics.events.received_breakdown.decoded_breakdown.*", "analysis_events_decoded",
            "Decoded events, by component.", component="*"),
    counter("metrics.events.received_breakdown.dropped_breakdown.*", "analysis_events_dropped",
            "Dropped events, by component.", component="*"),
    counter("metrics.events.written_breakdown.*", "analysis_records_written", "Records written, by output.",
            output="*"),
    gauge("metrics.queues.processed.usage", "analysis_queue_usage_ratio", "How full a queue is, from 0 to 1.",
          queue="events"),
    gauge("metrics.queues.others.usage", "analysis_queue_usage_ratio", queue="local"),
    gauge("metrics.queues.alerts.usage", "analysis_queue_usage_ratio", queue="alerts"),
    gauge("metrics.eps.available_credits", "analysis_rate_credits", "Events that the configured limit still allows."),
    counter("metrics.eps.seconds_over_limit", "analysis_rate_limited_seconds", "Time spent at the configured limit."),
    counter("analysis.outputs.written.alerts_of_level.*", "alerts", "Alerts written, by level.", level="*"),
    counter("analysis.outputs.written.torn_records", "analysis_torn_records", "Files of outputs that ended in a cut"
            " record when they were opened."),
    counter("analysis.outputs.responses.queued", "responses_queued", "Active responses handed to secmon-modulesd."),
    counter("analysis.outputs.responses.dropped", "responses_dropped", "Active responses that could not be handed on,"
            " by reason.", reason="queue"),
    counter("analysis.outputs.responses.too_long", "responses_dropped", reason="too_long"),
    gauge("analysis.waiting", "analysis_waiting", "Whether the analysis waits, for a full disk for instance; its state"
          " says for what."),
    counter("analysis.waits", "analysis_waits", "Times that the analysis had to wait."),
    counter("analysis.possibly_repeated", "analysis_events_possibly_repeated", "Events that may have been analysed"
            " twice, after the daemon had ended without notice."),
    counter("analysis.lost", "analysis_events_lost", "Events that were damaged or gone before they were read."),
    counter("analysis.malformed", "analysis_events_malformed", "Events without a known type."),
    counter("analysis.failed", "analysis_events_failed", "Events whose analysis failed."),
    counter("analysis.unwritten", "analysis_events_unwritten", "Events that could not be written either."),
    counter("analysis.kept_for_others", "analysis_events_for_others", "Events that other daemons read."),
    counter("analysis.incomplete_firewall", "analysis_firewall_events_incomplete", "Firewall events without all"
            " fields."),
    counter("analysis.ingested", "analysis_events_ingested", "Events sent to the API."),
    counter("analysis.datagrams", "analysis_datagrams", "Datagrams of local programs."),
    counter("analysis.local_lines", "analysis_local_lines", "Lines of the manager's own log files."),
    gauge("engines.engines", "analysis_engines", "Processes that analyse."),
    gauge("engines.decoders_ready", "analysis_decoders_ready", "Processes of the decoder pool that are ready."),
    counter("engines.decoder_restarts", "analysis_decoder_restarts", "Restarts in the decoder pool."),
    counter("engines.looked_ahead", "analysis_events_looked_ahead", "Events that the decoder pool has decoded."),
    counter("engines.in_line", "analysis_events_in_line", "Events that the analysis thread has decoded."),
    counter("engines.resumed", "analysis_searches_resumed", "Searches for rules begun in the decoder pool."),
    gauge("ruleset.current", "ruleset_current", "Whether the ruleset on disk is the one in force."),
    counter("ruleset.swaps", "ruleset_swaps", "Rulesets that came into force."),
    counter("ruleset.rejections", "ruleset_rejections", "Rulesets that do not load."),
    gauge("sessions.open", "logtest_sessions", "Open sessions of log tests."),
    counter("sessions.evicted", "logtest_sessions_evicted", "Sessions of log tests closed in favour of others."),
)  # fmt: skip
