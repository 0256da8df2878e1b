"""Counters of ``secmon-db``."""

from secmon.operations.metrics.metric import counter, gauge
from secmon.operations.metrics.tables.journals import journal_metrics

METRICS = (
    *journal_metrics("inventory.journal", "inventory"),
    counter("inventory.messages", "inventory_messages", "Messages about hosts that were stored."),
    counter("inventory.malformed", "inventory_messages_malformed", "Messages about hosts that cannot be read."),
    counter("inventory.unsupported", "inventory_messages_unsupported", "Messages about hosts of an unknown kind."),
    counter("inventory.lost", "inventory_messages_lost", "Messages damaged or gone before they were read."),
    counter("inventory.handled.*", "inventory_messages_handled", "Messages about hosts, by kind.", kind="*"),
    counter("inventory.handled_us.*", "inventory_handling_seconds", "Time spent on messages, by kind.", factor=1e-6,
            kind="*"),
    counter("inventory.transactions", "inventory_transactions", "Transactions of the inventory."),
    counter("inventory.transaction_us", "inventory_transaction_seconds", "Time spent in transactions.", factor=1e-6),
    counter("inventory.refused_by_store", "inventory_rows_refused", "Rows refused, by reason.", reason="store"),
    counter("inventory.refused_by_limit", "inventory_rows_refused", reason="limit"),
    counter("inventory.refused_by_bytes", "inventory_rows_refused", reason="bytes"),
    counter("inventory.checks_refused", "inventory_checks_refused", "Checks beyond the limit of an agent."),
    counter("inventory.agents_removed", "inventory_agents_removed", "Removed agents whose rows were deleted."),
    counter("inventory.answers_sent", "inventory_answers_sent", "Answers to checks of agents that were sent."),
    counter("inventory.answers_unsent", "inventory_answers_unsent", "Answers to agents that are not connected."),
    counter("inventory.answers_dropped", "inventory_answers_dropped", "Answers dropped because too many waited."),
    gauge("inventory.answers_waiting", "inventory_answers_waiting", "Answers to agents that wait."),
    counter("alerts.indexed", "alerts_indexed", "Alerts that were written into the store of alerts."),
    counter("alerts.commits", "alert_store_commits", "Transactions of the store of alerts."),
    counter("alerts.failures", "alert_store_failures", "Failed attempts to index alerts; they stay in their files."),
    counter("alerts.lost_files", "alert_files_lost", "Files of alerts that were gone before they were read."),
    counter("alerts.skipped_lines", "alert_lines_skipped", "Lines of the files of alerts that were not indexed, by"
            " reason.", reason="unreadable"),
    counter("alerts.malformed_lines", "alert_lines_skipped", reason="malformed"),
    counter("alerts.damaged_partitions", "alert_partitions_removed", "Partitions of the store of alerts that were"
            " put aside or removed, by reason.", reason="damaged"),
    counter("alerts.dropped_partitions", "alert_partitions_removed", reason="age"),
    gauge("alerts.unread_bytes", "alert_store_lag_bytes", "Alerts in files that are not indexed yet."),
    gauge("alerts.store_bytes", "alert_store_bytes", "Size of the store of alerts."),
    gauge("vulnerabilities.hosts_waiting", "vulnerability_hosts_waiting", "Hosts to be compared with advisories."),
    counter("vulnerabilities.scans", "vulnerability_scans", "Comparisons of hosts with advisories."),
    counter("vulnerabilities.scans_us", "vulnerability_scan_seconds", "Time spent on comparisons.", factor=1e-6),
    counter("vulnerabilities.scans_failed", "vulnerability_scans_failed", "Comparisons that failed."),
    counter("vulnerabilities.appeared", "vulnerabilities_found", "Vulnerabilities that comparisons have found."),
    counter("vulnerabilities.solved", "vulnerabilities_solved", "Vulnerabilities that comparisons have ended."),
)  # fmt: skip
