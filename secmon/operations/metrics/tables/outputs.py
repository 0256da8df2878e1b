"""Counters of ``secmon-csyslogd``, ``secmon-maild`` and ``secmon-integratord``, by output."""

from secmon.operations.metrics.metric import counter, gauge

METRICS = (
    counter("*.delivered", "output_alerts_delivered", "Alerts that an output has taken.", output="*"),
    counter("*.silenced", "output_alerts_silenced", "Alerts that a silence holds back from an output.", output="*"),
    counter("*.refused", "output_alerts_refused", "Alerts that an output has refused; they are not sent again.",
            output="*"),
    counter("*.malformed", "output_alerts_malformed", "Lines of the files of alerts that cannot be read.", output="*"),
    counter("*.lost_files", "output_files_lost", "Files of alerts that were gone before they were read.", output="*"),
    counter("*.failures", "output_failures", "Failed attempts to deliver; the alerts wait.", output="*"),
    counter("*.mails", "output_mails", "Mails sent.", output="*"),
    gauge("*.gathered", "output_alerts_gathered", "Alerts that are gathered for the next mail.", output="*"),
    gauge("*.unread_bytes", "output_lag_bytes", "Alerts that were not delivered yet.", output="*"),
)  # fmt: skip
