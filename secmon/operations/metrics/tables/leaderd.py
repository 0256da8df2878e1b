"""Counters of ``secmon-leaderd``, which runs with a store of record only."""

from secmon.operations.metrics.metric import counter, gauge

METRICS = (
    gauge("leadership.term", "term", "Number of the current term."),
    gauge("leadership.master", "term_held", "Whether this node holds the current term."),
    gauge("leadership.term_started", "term_start_time_seconds", "Begin of the current term, since 1970."),
    gauge("leadership.lease_seconds", "term_lease_seconds", "Time left of the term that this node holds."),
    gauge("leadership.candidates", "candidates", "Nodes that could become master, at the last contact."),
    gauge("leadership.record_up", "record_store_up", "Whether the store of record has answered the last question."),
    gauge("leadership.record_silence_seconds", "record_store_silence_seconds", "Time since the store of record last"
          " answered."),
    counter("leadership.changes", "role_changes", "Changes of master that this node has seen."),
    counter("leadership.failures", "role_failures", "Times that this node could not be the master."),
    counter("leadership.renewals", "term_renewals", "Renewals of the held term."),
    counter("leadership.renewals_failed", "term_renewals_failed", "Renewals of the held term that failed."),
    counter("leadership.contacts_failed", "record_store_contacts_failed", "Questions to the store of record without an"
            " answer."),
)  # fmt: skip
