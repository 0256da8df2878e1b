"""Counters that several daemons have; each of these metrics has the label ``daemon``."""

from secmon.operations.metrics.metric import counter, gauge

METRICS = (
    counter("task_restarts.*", "task_restarts", "Restarts of a task within a daemon that went on.", task="*"),
    counter("operations.storage_errors", "operation_storage_errors", "Calls that failed because a store did."),
    counter("operations.unexpected_errors", "operation_unexpected_errors", "Calls that failed by a fault of secmon."),
    gauge("calls.held", "calls_held", "Calls that wait for a master or a connection."),
    counter("calls.repeated", "calls_repeated", "Calls that were sent again after a wait."),
    counter("log.write_errors", "log_entries_lost", "Entries of a log that could not be written."),
    counter("log.rotation_errors", "log_rotations_failed", "Rotations of a log that failed."),
    gauge("process.open_fds", "process_open_fds", "Open file descriptors."),
    gauge("process.max_fds", "process_max_fds", "Limit of open file descriptors."),
    gauge("process.resident_bytes", "process_resident_memory_bytes", "Resident memory."),
    gauge("process.threads", "process_threads", "Threads."),
    counter("process.cpu_seconds", "process_cpu_seconds", "Time of the processor, user and system."),
    gauge("process.started", "process_start_time_seconds", "Start of the process, since 1970."),
    counter(
        "silences.held.*",
        "silence_alerts_held",
        "Alerts that a silence holds back; each output counts for itself.",
        silence="*",
    ),
)
