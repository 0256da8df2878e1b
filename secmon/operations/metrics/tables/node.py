"""What a node reads itself, rather than from the counters of a daemon."""

from secmon.operations.metrics.metric import counter, gauge

DAEMON_UP = gauge("", "daemon_up", "Whether a daemon gives its counters.", daemon="")
RESTARTS = counter("", "daemon_restarts", "Restarts of a daemon that has ended or hung.", daemon="")
HANGS = counter("", "daemon_hangs", "Times that a daemon did not answer and was killed.", daemon="")
UNKNOWN = gauge("", "unknown_counters", "Counters of daemons that have no metric: a fault of secmon.", daemon="")
INFO = gauge("", "node_info", "Always 1: the node, in its labels.", node="", role="", version="", cluster="")
LEASE = gauge("", "security_lease_seconds", "Time left in which this node may trust its copy of the security state;"
              " absent where it needs none.")  # fmt: skip
STORE = gauge("", "store_bytes", "Size of a store with its log of changes.", store="")
LAG_EVENTS = gauge("", "journal_lag_events", "Events of a journal that a reader has not committed.", journal="",
                   reader="")  # fmt: skip
LAG_BYTES = gauge("", "journal_lag_bytes", "About the bytes of these events.", journal="", reader="")
DISK_FREE = gauge("", "filesystem_available_bytes", "Room for secmon on the file system of a folder.", folder="")
DISK_SIZE = gauge("", "filesystem_size_bytes", "Size of the file system of a folder.", folder="")
DISK_FILES = gauge("", "filesystem_available_files", "Files that can still be made in it.", folder="")
EXPIRY = gauge("", "certificate_expiry_time_seconds", "When a certificate expires, since 1970.", certificate="")

METRICS = (
    DAEMON_UP, RESTARTS, HANGS, UNKNOWN, INFO, LEASE, STORE, LAG_EVENTS, LAG_BYTES, DISK_FREE, DISK_SIZE, DISK_FILES,
    EXPIRY,
)  # fmt: skip
