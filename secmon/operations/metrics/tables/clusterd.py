"""Counters of ``secmon-clusterd``."""

from secmon.operations.metrics.metric import counter, gauge
from secmon.operations.metrics.tables.ports import port_metrics

METRICS = (
    *port_metrics("cluster.peers", "cluster"),
    *port_metrics("cluster.enrolment", "cluster-enrolment"),
    gauge("cluster.workers.connected", "cluster_workers", "Workers by their state, as the master sees them.",
          state="connected"),
    gauge("cluster.workers.lost", "cluster_workers", state="lost"),
    gauge("cluster.workers.refused", "cluster_workers", state="refused"),
    gauge("replicas.security.behind.*", "replica_behind_revisions",
          "Revisions of the master that a worker has not confirmed; only the master has this.", node="*",
          set="security"),
    gauge("replicas.registry.behind.*", "replica_behind_revisions", node="*", set="registry"),
    gauge("replicas.files.behind.*", "replica_behind_revisions", node="*", set="files"),
    gauge("replicas.silence.*", "worker_silence_seconds", "Time since the last message of a worker.", node="*"),
    gauge("replicas.round_trip.*", "worker_round_trip_seconds", "Round trip to a worker, smoothed.", node="*"),
    gauge("replicas.clock_skew.*", "worker_clock_skew_seconds", "Clock of a worker, ahead of the master's.", node="*"),
    gauge("position.security", "revision", "Revision of a replicated set on this node.", set="security"),
    gauge("position.registry", "revision", set="registry"),
    gauge("position.files", "revision", set="files"),
    gauge("master_link.connected", "master_link_up", "Whether this worker has a session with the master."),
    counter("master_link.sessions", "master_link_sessions", "Sessions of this worker with a master."),
    counter("sources.unanswered", "source_reports_missing", "Times that a node did not report the sources of its"
            " agents' events."),
    counter("cluster.calls_refused", "cluster_calls_refused", "Calls of other nodes that were refused."),
    counter("cluster.answers_refused", "cluster_answers_refused", "Answers of workers that were refused, because others"
            " of the same worker took the memory."),
    counter("cluster.enrolment.unproved", "cluster_enrolments_unproved", "Nodes without the cluster key that asked for"
            " a certificate."),
    counter("security.publish_failures", "publish_failures", "Failed attempts to read what is to be replicated.",
            set="security"),
    counter("registry.publish_failures", "publish_failures", set="registry"),
    counter("security.confirmations_late", "security_confirmations_late", "Changes of the security state that some"
            " worker did not confirm in time."),
    counter("hits.relayed", "rule_hits_relayed", "Hits of rules that the master has passed on."),
    counter("hits.refused", "rule_hits_not_relayed", "Hits of rules that the master has not passed on, by reason.",
            reason="rate"),
    counter("hits.dropped", "rule_hits_not_relayed", reason="queue"),
    counter("hits.undelivered", "rule_hits_not_relayed", reason="node"),
    gauge("files.replicated", "replicated_files", "Files that the master replicates."),
    gauge("files.skipped", "replicated_files_skipped", "Files that cannot be replicated; the reason is in the log."),
    gauge("files.unrecorded", "replicated_files_unrecorded", "Changed files that are not in the store of record yet."),
    counter("files.refused", "replicated_files_refused", "Changed files that the store of record has refused."),
    counter("agents.reported", "agent_reports", "States of agents that workers have reported to the master."),
    counter("agents.reports_refused", "agent_reports_refused", "Reports of agents' states that the master refused."),
    counter("agents.report_failures", "agent_report_failures", "Reports of agents that could not be made or stored."),
)  # fmt: skip
